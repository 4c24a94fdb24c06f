"""An AdminClient that speaks our words: it asks again while brokers do not agree, and translates.

In: a configuration, questions. Out: answers, or errors that say what is missing and what to do. A
client that has lost all its brokers is replaced before the next question. `topics` builds on it.
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
from coop_consumer.kafka.translate import translated

log = logging.getLogger(__name__)

T = TypeVar("T")

OFFSETS_TOPIC = "__consumer_offsets"
KNOWN_WITHIN_S = 10.0
"""How long after one broker knew of a topic all brokers know of it."""
AGREE_WITHIN_S = 1.0
"""How long a topic is asked for again that no broker is known to have heard of."""

_TIMEOUT_S = 10.0
_CRITICAL = 2
_PROBE_S = 1.0


class AdminCalls:
    """An AdminClient that speaks our words. Thread-safe.

    Args:
        config: The member's configuration.

    Attributes:
        timeout_s: How long a broker may take for an answer.
        again_s: How long it waits before it asks the same again.

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
        self._seen_s: dict[str, float] = {}  # when a broker knew of a topic last

    def _new_admin(self) -> AdminClient:
        # What fails is an error of the call that failed; librdkafka would also print it, 20 times a
        # second while no broker answers.
        return AdminClient({"log_level": _CRITICAL, **self._config.admin()})

    @property
    def admin(self) -> AdminClient:
        """The client; a new one after no broker was reached, see `clients.successor`."""
        if self._in_doubt:
            self._in_doubt = False
            self._former, self._admin = self._admin, self._new_admin()  # answers may be under way
        return self._admin

    def check_broker(self, timeout_s: float = _TIMEOUT_S) -> None:
        """Ask for metadata. If no broker answers, a line says so within 2 s, and it tries further.

        Raises:
            BrokerUnreachableError: If no broker answered in time.
            AuthorizationError: If the login was refused.
        """
        refusals: list[KafkaError] = []
        # A refused login is no error of any call: only a client that is polled hears of it. The
        # running client is not polled, so probes ask: a new one each time, see `successor`.
        settings = {"log_level": _CRITICAL, "error_cb": refusals.append, **self._config.admin()}
        where = f"cluster {self._config.bootstrap_servers}"
        deadline, told = time.monotonic() + timeout_s, False
        while True:
            left_s = deadline - time.monotonic()
            probe = AdminClient(settings)
            try:
                probe.list_topics(OFFSETS_TOPIC, timeout=min(max(left_s, 0.1), _PROBE_S))
            except KafkaException as error:
                probe.poll(0)
                for refusal in refusals:
                    if refusal.code() == KafkaError._AUTHENTICATION:
                        raise self._reason(KafkaException(refusal), where) from error
                detail = _told_by(refusals) or error.args[0].str()
                if left_s <= 0:
                    raise self._reason(error, where, detail) from error
                if not told and deadline - time.monotonic() >= _PROBE_S:
                    told = True
                    log.warning("%s: no answer yet (%s); tried for %g s", where, detail, timeout_s)
            else:
                return

    def _translated(self, error: BaseException, where: str) -> CoopConsumerError:
        if not isinstance(error, KafkaException):
            return UnexpectedAnswerError(where, str(error))
        user = str(dict(self._config.passed).get("sasl.username", ""))
        found = translated(error.args[0], where, user, "read")  # which implies: describe
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
        """What the broker answers in time, or an error in our words."""
        try:
            return future.result(self.timeout_s)
        except KafkaException as error:
            raise self._reason(error, where) from error
        except TimeoutError as error:  # librdkafka itself waits longer: for a broker that is mute
            self._in_doubt = True
            raise self._unreachable(f"{where}: silent for {self.timeout_s:g} s") from error

    def _until_known(self, ask: Callable[[], T], patience_s: float = AGREE_WITHIN_S) -> T:
        """Ask again while brokers do not agree on a topic.

        They learn of a new topic, and of its leaders, one after the other; any of them answers.
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
        """Have the client ask who leads; by itself it keeps an answer that names no leader."""
        with suppress(KafkaException):  # then the next try tells
            self.admin.list_topics(topic, _PROBE_S)


def _told_by(refusals: Sequence[KafkaError]) -> str:
    """The last word of a connection on why it failed, without librdkafka's notes on its state."""
    told = [it.str() for it in refusals if it.code() != KafkaError._ALL_BROKERS_DOWN]
    return told[-1].partition(" (after ")[0] if told else ""


def _topic_of(error: TopicMissingError | UnexpectedAnswerError) -> str:
    if isinstance(error, TopicMissingError):
        return error.topic
    return error.where.removeprefix("topic ")
