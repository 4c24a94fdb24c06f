"""What a provider of login tokens may return, and how it is found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from coop_consumer.errors import ConfigError
from coop_consumer.token_provider import LoginToken, found_provider, token_of

NOW_S = 1_700_000_000.0
LATER_S = NOW_S + 60


@pytest.fixture
def module() -> Iterator[ModuleType]:
    made = ModuleType("coop_test_auth")
    sys.modules["coop_test_auth"] = made
    yield made
    del sys.modules["coop_test_auth"]


@pytest.mark.parametrize(
    ("answer", "token"),
    [
        (("abc.def", LATER_S), LoginToken("abc.def", LATER_S)),
        (["abc", int(LATER_S)], LoginToken("abc", LATER_S)),
        (("abc", LATER_S, "ann"), LoginToken("abc", LATER_S, "ann")),
        (("abc", LATER_S, None, None), LoginToken("abc", LATER_S)),
        (("abc", LATER_S, "ann", {"a": "b"}), LoginToken("abc", LATER_S, "ann", {"a": "b"})),
    ],
)
def test_a_token_and_its_end_are_enough(answer: object, token: LoginToken) -> None:
    assert token_of(answer, NOW_S, "m:f") == token
    assert "abc" not in repr(token)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "an object of the type NoneType"),
        ("s3cret", "an object of the type str"),
        (("s3cret",), r"\(str\)"),
        ((LATER_S, "s3cret"), r"\(float, str\)"),
        ((b"s3cret", LATER_S), r"\(bytes, float\)"),
        (("s3cret", "soon"), r"\(str, str\)"),
        (("s3cret", True), r"\(str, bool\)"),
        (("", LATER_S), "a token that is empty"),
        (("s3cret s3cret", LATER_S), "characters that no token has"),
        (("s3cret\x01", LATER_S), "characters that no token has"),
        (("s3cret", float("nan")), "no time in Unix seconds"),
        (("s3cret", LATER_S * 1000), r"1\.7e\+12, which is no time in Unix seconds"),
        (("s3cret", NOW_S - 5), "expired 5 s ago"),
        (("s3cret", LATER_S, 7), "a principal that is no printable text"),
        (("s3cret", LATER_S, "a", {"s3cret": 1}), "extensions that are no dict of texts"),
        (("s3cret", LATER_S, "a", {}, "more"), r"\(str, float, str, dict, str\)"),
    ],
)
def test_nonsense_is_told_without_any_of_its_values(answer: object, told: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"oauth\.token\.provider=m:f has returned .*{told}"
    ) as caught:
        token_of(answer, NOW_S, "m:f")
    assert "s3cret" not in str(caught.value)
    assert "(token, expiry)" in caught.value.remedy


def test_a_provider_is_found_by_its_text(module: ModuleType) -> None:
    class Cloud:
        @staticmethod
        def token() -> tuple[str, float]:
            return "t", LATER_S

    module.cloud = Cloud()  # type: ignore[attr-defined]
    assert found_provider("coop_test_auth:cloud.token")() == ("t", LATER_S)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("coop_no_such_module:token", r"cannot be imported \(ModuleNotFoundError: No module named"),
        ("coop_test_auth:tokne", "module coop_test_auth has no function tokne"),
        ("coop_test_auth:number", "has no function number"),
    ],
)
def test_a_provider_that_is_not_there_is_named(module: ModuleType, spec: str, told: str) -> None:
    module.number = 5  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=rf"oauth\.token\.provider={spec}.*{told}"):
        found_provider(spec)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("1 / 0", "ZeroDivisionError in {}:1"),
        ("\nraise OSError('https://user:s3cret@login.example')", "OSError in {}:2"),
        ("import json\njson.loads('s3cret')", "JSONDecodeError in {}:2"),
        ("def token(:", r"SyntaxError: invalid syntax (coop_test_raises.py, line 1)"),
        ("from json import tokens", "ImportError: cannot import name 'tokens' from 'json'"),
    ],
)
def test_a_provider_that_cannot_be_imported_is_told_by_its_line_without_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, told: str
) -> None:
    path = tmp_path / "coop_test_raises.py"
    path.write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "coop_test_raises", raising=False)
    with pytest.raises(ConfigError) as caught:
        found_provider("coop_test_raises:token")
    assert f"cannot be imported ({told.format(path)}" in str(caught.value)
    assert "s3cret" not in str(caught.value)
