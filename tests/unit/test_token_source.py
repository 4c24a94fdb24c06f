"""The source of login tokens: refreshed before anybody asks, whatever the provider does."""

from __future__ import annotations

import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from traceback import format_exception
from types import ModuleType

import pytest

from coop_consumer.errors import ConfigError, TokenUnavailableError
from coop_consumer.token_source import TokenSource, source_of
from tests.support.stock import eventually

_NUMBERS = count(1)


class Provider:
    """Does what the test says; counts its calls."""

    def __init__(self) -> None:
        # The source of an earlier test may be at work yet.
        self.module = f"coop_test_provider_{next(_NUMBERS)}"
        self.spec = f"{self.module}:token"
        self.calls = 0
        self.lives_s = 60.0
        self.act: Callable[[], object] = self.give

    def __call__(self) -> object:
        self.calls += 1
        return self.act()

    def give(self) -> tuple[str, float]:
        return f"token-{self.calls}", time.time() + self.lives_s


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    module = ModuleType(made.module)
    module.token = made  # type: ignore[attr-defined]
    sys.modules[made.module] = module
    yield made
    # A source asks on for half a minute, and what it would report falls into another test.
    made.act, made.lives_s = made.give, 3_600.0


SECRET = "s3cret"  # noqa: S105 - of nobody


def ask(address: str) -> object:
    raise ConnectionError(f"{address} is away")


def fail() -> object:
    return ask(f"https://user:{SECRET}@login.example/token")


def line_of(function: Callable[..., object]) -> str:
    """Where a function of one line raises: its file and that line."""
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno + 1}"


def test_all_clients_of_a_process_share_the_tokens(provider: Provider) -> None:
    source = source_of(provider.spec)
    assert source_of(provider.spec) is source
    fresh = TokenSource(provider.spec)
    for _ in range(3):
        fresh.begin()
        fresh.begin(valid=True)
    value, told_s, principal, extensions = fresh.for_librdkafka("")
    token = fresh.token()
    assert token is not None
    assert (value, token.value) == ("token-1", "token-1")
    assert (provider.calls, principal, extensions) == (1, "", {})
    assert time.time() < told_s < token.expiry_s, "it asks before the token ends"


def test_a_token_is_refreshed_before_it_ends(provider: Provider) -> None:
    provider.lives_s = 4.0
    source = TokenSource(provider.spec)
    source.begin()
    seen = set()

    def three() -> bool:
        token = source.token()
        assert token is not None, "there is always a valid one"
        seen.add(token.value)
        return len(seen) >= 3

    eventually(three)


@pytest.mark.parametrize(
    ("act", "error", "told"),
    [
        (fail, TokenUnavailableError, f"it raised ConnectionError in {line_of(ask)}; its text"),
        (partial(int, SECRET), TokenUnavailableError, f"it raised ValueError in {__file__}:"),
        (lambda: sys.exit(SECRET), TokenUnavailableError, f"it raised SystemExit in {__file__}:"),
        (lambda: SECRET, ConfigError, "has returned an object of the type str"),
    ],
)
def test_a_start_says_what_is_wrong(
    provider: Provider, act: Callable[[], object], error: type[Exception], told: str
) -> None:
    provider.act = act
    with pytest.raises(error, match=re.escape(told)) as caught:
        TokenSource(provider.spec).begin()
    assert SECRET not in "".join(format_exception(caught.value))


def test_what_a_provider_raises_is_whole_at_debug_alone(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    provider.lives_s = 1.0
    source = TokenSource(provider.spec)
    source.begin()
    provider.act = fail
    eventually(lambda: "Connections go on" in caplog.text or "has expired" in caplog.text)
    shown = {it.levelno: logging.Formatter().format(it) for it in caplog.records}
    assert f"user:{SECRET}@login.example" in shown[logging.DEBUG]
    assert line_of(ask) in shown[logging.WARNING]
    assert SECRET not in shown[logging.WARNING]


def test_a_start_does_not_wait_for_ever_for_a_provider_that_hangs(provider: Provider) -> None:
    release = threading.Event()
    provider.act = release.wait
    source = TokenSource(provider.spec, call_s=0.01)
    for _ in range(20):
        with pytest.raises(TokenUnavailableError, match=r"it has not returned for 0\.01 s"):
            source.begin()
    assert provider.calls == 16, "more calls would hang as well"
    release.set()


def test_a_call_that_hung_counts_once_it_returns(provider: Provider) -> None:
    release = threading.Event()

    def late() -> object:
        release.wait()
        return provider.give()

    provider.act = late
    source = TokenSource(provider.spec, call_s=0.01)
    with pytest.raises(TokenUnavailableError):
        source.begin()
    release.set()
    eventually(lambda: begins(source))
    assert source.token() is not None


def begins(source: TokenSource) -> bool:
    try:
        source.begin()
    except TokenUnavailableError:
        return False
    return True


@pytest.mark.parametrize(
    "act", [fail, lambda: 7, threading.Event().wait], ids=["raises", "is no token", "hangs"]
)
def test_a_member_at_work_goes_on_with_its_token_and_the_log_says_so_once(
    provider: Provider, act: Callable[[], object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    provider.lives_s = 12.0  # the third call comes after 8 s, if calls hang
    source = TokenSource(provider.spec, call_s=0.1)
    source.begin()
    first = source.token()
    provider.act = act
    before = provider.calls
    eventually(lambda: provider.calls >= before + 3)
    assert source.token() is first
    warnings = [it.message for it in caplog.records if provider.spec in it.message]
    assert len(warnings) == 1
    assert "Connections go on until the present token expires, in" in warnings[0]


def test_an_expired_token_is_no_valid_one_and_the_next_one_is_told(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    provider.lives_s = 1.0
    source = TokenSource(provider.spec)
    source.begin()
    provider.act = fail
    eventually(lambda: source.token() is None and "it raised ConnectionError" in caplog.text)
    source.begin()  # a client of a member at work is made all the same
    with pytest.raises(TokenUnavailableError):
        source.begin(valid=True)
    value, told_s, *_ = source.for_librdkafka("")
    assert (value, told_s > time.time()) == ("token-1", True)
    provider.act, provider.lives_s = provider.give, 60.0
    eventually(lambda: source.token() is not None)
    eventually(lambda: "login tokens come again" in caplog.text)
