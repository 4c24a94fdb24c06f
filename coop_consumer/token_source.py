"""One source of login tokens for all clients of a process, refreshed before it is too late.

In: a provider, by its text. Out: its newest token, at once: no client's thread ever waits for a
provider once there is a token. A thread asks the provider at two fifths of each token's life, which
is before any client asks. A provider that raises, hangs or returns nonsense then costs nothing
until the present token expires; the log tells it once a minute. The thread ends once no client asks
any more.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic, time

from coop_consumer.errors import ConfigError, CoopConsumerError, TokenUnavailableError
from coop_consumer.log_events import LogEvent
from coop_consumer.log_filter import whatever_a_log_does
from coop_consumer.token_provider import LoginToken, found_provider, raised_by, token_of

log = logging.getLogger(__name__)

CALL_S = 10.0
"""How long a provider may take."""

_REFRESH_SHARE, _TOLD_SHARE = 0.4, 0.3
_PAUSE_MIN_S, _PAUSE_MAX_S = 1.0, 30.0
_RETRY_SHARE = 0.1
_REPORT_S = 60.0
_CALLS_MAX = 16
"""So many calls of a provider may hang, each on a thread; then one has to return first."""
_SPARE_S = 0.2
"""A token that ends sooner would be refused on its way."""
_UNUSED_LIVES, _UNUSED_MIN_S = 2.0, 30.0


class TokenSource:
    """The tokens of one provider, for all clients of this process. Thread-safe.

    Args:
        provider: `module:callable`.
        call_s: How long a call of it may take.
    """

    def __init__(self, provider: str, *, call_s: float = CALL_S) -> None:
        self._provider = provider
        self._call_s = call_s
        self._beginning = threading.Lock()  # held while somebody waits for a token
        self._counting = threading.Lock()  # guards the start of threads
        self._token: LoginToken | None = None
        self._answers: SimpleQueue[object] = SimpleQueue()
        self._calls = 0  # that have not returned
        self._asked_s = monotonic()
        self._thread: threading.Thread | None = None
        self._reported_s = float("-inf")
        self._is_failing = False

    def begin(self, *, valid: bool = False) -> None:
        """Have a token. Blocks for the first one, at most `call_s`.

        Args:
            valid: Whether it must be valid now. Otherwise an expired one will do, because a client
                of a member at work must be made all the same: it waits for the next token.

        Raises:
            ConfigError: There is no such provider, or it returns no token.
            TokenUnavailableError: It raises, or does not return in time.
        """
        if self._token is None or valid:
            with self._beginning:
                if self._token is None or not self._is_valid(self._token):
                    self._token = self._next()
        self._note_use()

    def token(self) -> LoginToken | None:
        """The newest token; None if it has expired. Never blocks: there was one at the start."""
        self._note_use()
        token = self._token
        return token if token is not None and self._is_valid(token) else None

    def for_librdkafka(self, _: str | None = None) -> tuple[str, float, str, dict[str, str]]:
        """What librdkafka's token callback returns; called on threads of its own.

        It asks again at 80 % of the expiry that it is told, and looks once a second. So it is told
        an earlier one: it must have the next token well before the present one ends. An expired
        token is given, too: if this call failed, librdkafka would not ask again for ten seconds.
        """
        self._note_use()
        token = self._token
        assert token is not None, "begin() has got one"
        left_s = token.expiry_s - time()
        told_s = time() + max(_TOLD_SHARE * left_s, _PAUSE_MIN_S)
        return token.value, told_s, token.principal, dict(token.extensions)

    def _is_valid(self, token: LoginToken) -> bool:
        return token.expiry_s - time() > _SPARE_S

    def _note_use(self) -> None:
        self._asked_s = monotonic()
        with self._counting:
            if self._thread is None:
                name = "coop-tokens"
                self._thread = threading.Thread(target=self._keep_fresh, name=name, daemon=True)
                self._thread.start()

    # ---- the thread ----------------------------------------------------------------------------

    def _keep_fresh(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(self._pause_s())
            with self._counting:
                if self._is_unused():
                    self._thread = None
                    return
            try:
                token = self._next()
            except CoopConsumerError as error:
                self._report(error)
                continue
            present = self._token
            if present is None or token.expiry_s > present.expiry_s:
                self._token = token
            if self._is_failing:
                self._is_failing = False
                extra = LogEvent.TOKENS_BACK.extra()
                log.info("%s: login tokens come again", self._provider, extra=extra)

    def _pause_s(self) -> float:
        token = self._token
        left_s = 0.0 if token is None else token.expiry_s - time()
        if not self._is_failing:
            return max(_REFRESH_SHARE * left_s, _PAUSE_MIN_S)
        # A call that hangs keeps its thread: the more there are, the later the next one.
        return max(min(_RETRY_SHARE * left_s, _PAUSE_MAX_S), _PAUSE_MIN_S) * max(self._calls, 1)

    def _is_unused(self) -> bool:
        """Whether all clients have gone: each of them asks twice in a token's life."""
        token = self._token
        left_s = 0.0 if token is None else token.expiry_s - time()
        return monotonic() - self._asked_s > max(_UNUSED_LIVES * left_s, _UNUSED_MIN_S)

    def _next(self) -> LoginToken:
        """The provider's answer; a call that hung may answer instead of the last one."""
        provider = found_provider(self._provider)
        with self._counting:
            is_call = self._calls < _CALLS_MAX
            self._calls += is_call
        if is_call:
            target = partial(self._call, provider)
            threading.Thread(target=target, name="coop-token-call", daemon=True).start()
        try:
            answer = self._answers.get(timeout=self._call_s)
        except Empty:
            detail = f"it has not returned for {self._call_s:g} s"
            raise TokenUnavailableError(self._provider, detail) from None
        with self._counting:
            self._calls -= 1
        if isinstance(answer, BaseException):
            self._tell_whole(answer)
            detail = (
                f"it raised {raised_by(answer)}; its text, which may quote a secret, is in the "
            )
            raise TokenUnavailableError(self._provider, f"{detail}log at DEBUG")
        return token_of(answer, time(), self._provider)

    def _call(self, provider: Callable[[], object]) -> None:
        try:
            self._answers.put(provider())
        except BaseException as error:  # noqa: BLE001 - it is the answer
            self._answers.put(error)

    def _tell_whole(self, error: BaseException) -> None:
        with whatever_a_log_does():
            extra = LogEvent.TOKENS_FAILED.extra(error=error)
            log.debug("%s has raised", self._provider, exc_info=error, extra=extra)

    def _report(self, error: CoopConsumerError) -> None:
        self._is_failing = True
        if monotonic() - self._reported_s < _REPORT_S:
            return
        self._reported_s = monotonic()
        token = self._token
        left_s = 0.0 if token is None else token.expiry_s - time()
        now = (
            f"Connections go on until the present token expires, in {left_s:.0f} s"
            if left_s > 0
            else "The present token has expired: no connection can log in until there is another"
        )
        what = (
            f"{error.name}{error.problem}"
            if isinstance(error, ConfigError)
            else f"oauth.token.provider={self._provider}: {_detail_of(error)}"
        )
        with whatever_a_log_does():
            told = "%s. %s. It is asked again and again, and nothing is lost."
            log.warning(told, what, now, extra=LogEvent.TOKENS_FAILED.extra(error=error))


def _detail_of(error: CoopConsumerError) -> str:
    return error.detail if isinstance(error, TokenUnavailableError) else str(error)


_SOURCES: dict[tuple[int, str], TokenSource] = {}


def source_of(provider: str) -> TokenSource:
    """The source of this process for a provider; a forked child has its own."""
    return _SOURCES.setdefault((os.getpid(), provider), TokenSource(provider, call_s=CALL_S))
