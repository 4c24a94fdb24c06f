"""An AdminClient that repeats questions and translates errors.

In: a configuration, questions. Out: answers, or errors that say what is missing and what to do.
While brokers disagree about a topic, the question is repeated. A client that has lost all its
brokers is replaced before the next question. `topics` builds on this module.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from coop_consumer.config import Config
from coop_consumer.errors import (
    BrokerUnreachableError,
    CoopConsumerError,
    TopicMissingError,
    UnexpectedAnswerError,
)
from coop_consumer.kafka.clients import making
from coop_consumer.kafka.token_login import logged_in, require_token
from coop_consumer.kafka.translate import translated
from coop_consumer.log_events import LogEvent

log = logging.getLogger(__name__)

T = TypeVar("T")

OFFSETS_TOPIC = "__consumer_offsets"
KNOWN_WITHIN_S = 10.0
"""Once one broker knows a topic, all brokers know it within this time."""
AGREE_WITHIN_S = 1.0
"""How long to ask for a topic that no broker has known yet."""

_TIMEOUT_S = 10.0
_CRITICAL = 2
_PROBE_S = 1.0


class AdminCalls:
    """An AdminClient with repeated questions and our errors. Thread-safe.

    Args:
        config: The member's configuration.

    Attributes:
        timeout_s: How long a broker may take for an answer.
        again_s: The pause before a question is repeated.

    Raises:
        ConfigError: For a setting that librdkafka refuses.
    """

    timeout_s: ClassVar[float] = _TIMEOUT_S
    again_s: ClassVar[float] = 0.02

    def __init__(self, config: Config) -> None:
        self._config = config
        with making(config):
            self._admin = self._former = self._new_admin()
        self._in_doubt = False
        self._seen_s: dict[str, float] = {}  # by topic: when a broker last knew it

    def _new_admin(self) -> AdminClient:
        # A failure is an error of the call. librdkafka would also print it, 20 times a second while
        # no broker answers.
        return AdminClient(logged_in({"log_level": _CRITICAL, **self._config.admin()}))

    @property
    def admin(self) -> AdminClient:
        """The client. If no broker was reached, a new one; see `clients.successor`."""
        if self._in_doubt:
            self._in_doubt = False
            self._former, self._admin = self._admin, self._new_admin()  # keeps pending answers
        return self._admin

    def check_broker(self, timeout_s: float = _TIMEOUT_S, *, warns: bool = True) -> None:
        """Ask for metadata until a broker answers.

        Args:
            timeout_s: For how long.
            warns: Whether to say so after 2 s without an answer.

        Raises:
            BrokerUnreachableError: If no broker answered in time.
            AuthorizationError: If the login was refused.
            ConfigError, TokenUnavailableError: If there is no token to log in with.
        """
        require_token(self._config)
        refusals: list[KafkaError] = []
        # librdkafka reports a refused login only to a callback of a polled client. The running
        # client is not polled, so use clients of our own: a new one each time, see `successor`.
        settings = {"log_level": _CRITICAL, "error_cb": refusals.append, **self._config.admin()}
        where = f"cluster {self._config.bootstrap_servers}"
        deadline, told = time.monotonic() + timeout_s, False
        while True:
            left_s = deadline - time.monotonic()
            probe = AdminClient(logged_in(settings))
            try:
                probe.list_topics(OFFSETS_TOPIC, timeout=min(max(left_s, 0.1), _PROBE_S))
            except KafkaException as error:
                probe.poll(0)
                for refusal in refusals:
                    if refusal.code() == KafkaError._AUTHENTICATION:
                        raise self._reason(KafkaException(refusal), where) from error
                detail = _last_refusal(refusals) or error.args[0].str()
                if left_s <= 0:
                    raise self._reason(error, where, detail) from error
                if warns and not told and deadline - time.monotonic() >= _PROBE_S:
                    told = True
                    text = "%s: no answer yet (%s); trying for %g s"
                    extra = LogEvent.BROKER_SILENT.extra()
                    log.warning(text, where, detail, timeout_s, extra=extra)
            else:
                return

    def _translated(self, error: BaseException, where: str) -> CoopConsumerError:
        if not isinstance(error, KafkaException):
            return UnexpectedAnswerError(where, str(error))
        found = translated(
            error.args[0], where, self._config.user, "read"
        )  # "read" implies "describe"
        if isinstance(found, BrokerUnreachableError):
            self._in_doubt = True
        return found

    def _reason(self, error: KafkaException, where: str, detail: str = "") -> CoopConsumerError:
        found = self._translated(error, where)
        if isinstance(found, BrokerUnreachableError):
            return self._unreachable(detail or found.detail)
        return found

    def _unreachable(self, detail: str) -> BrokerUnreachableError:
        return BrokerUnreachableError(self._config.bootstrap_servers, detail)

    def _answer(self, future: Future[Any], where: str) -> Any:
        """The broker's answer, or an error of ours if it fails or is late."""
        try:
            return future.result(self.timeout_s)
        except KafkaException as error:
            raise self._reason(error, where) from error
        except TimeoutError as error:  # librdkafka itself waits longer for a silent broker
            self._in_doubt = True
            raise self._unreachable(f"{where}: silent for {self.timeout_s:g} s") from error

    def _until_known(self, ask: Callable[[], T], patience_s: float = AGREE_WITHIN_S) -> T:
        """Ask again while brokers do not agree on a topic.

        Brokers learn of a new topic and its leaders one after the other. Any broker may answer.
        """
        began_s = time.monotonic()
        while True:
            try:
                return ask()
            except (TopicMissingError, UnexpectedAnswerError) as error:
                seen_s = self._seen_s.get(_topic_of(error), float("-inf"))
                if time.monotonic() > max(began_s + patience_s, seen_s + KNOWN_WITHIN_S):
                    raise
                if isinstance(error, UnexpectedAnswerError):
                    self._look_up_leaders(_topic_of(error))
            time.sleep(self.again_s)

    def _look_up_leaders(self, topic: str) -> None:
        """Make the client ask who leads; after an answer without leaders it does not ask again."""
        with suppress(KafkaException):  # the next try reports it
            self.admin.list_topics(topic, _PROBE_S)


def _last_refusal(refusals: Sequence[KafkaError]) -> str:
    """The last reason why a connection failed, without librdkafka's notes on its state."""
    told = [it.str() for it in refusals if it.code() != KafkaError._ALL_BROKERS_DOWN]
    return told[-1].partition(" (after ")[0] if told else ""


def _topic_of(error: TopicMissingError | UnexpectedAnswerError) -> str:
    if isinstance(error, TopicMissingError):
        return error.topic
    return error.where.removeprefix("topic ")
