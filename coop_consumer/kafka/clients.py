"""What librdkafka's clients have in common: how they are checked, replaced, and where they log.

In: a configuration; a client that is silent; lines of the clients' logs. Out: a `ConfigError` that
names the setting if a client cannot be made; a new client if one is cut off; fewer lines. Only the
clients can judge the values of their settings, so a member makes each kind before anything runs. If
a client failed later, on its own thread, the member would stay in the group and fetch nothing.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from coop_consumer.config import Config
from coop_consumer.config.librdkafka import ALIASES
from coop_consumer.errors import ConfigError, CoopConsumerError, lacking
from coop_consumer.kafka.token_login import require_token, without_login
from coop_consumer.kafka.translate import translated
from coop_consumer.log_events import LogEvent
from coop_consumer.log_filter import CLIENTS

_WORD = re.compile(r"[a-z_.]+")

_CRITICAL = 2
"""No broker answers: another error, reported later."""

SILENT_S = 5.0
"""After this silence of a client, check whether it still knows a broker."""

_ITS_ANSWER_S, _A_NEW_ONES_ANSWER_S = 1.0, 2.0
_LOOK_UP_TIMEOUT_S = 1.0

Client = TypeVar("Client", Consumer, Producer)

log = logging.getLogger(__name__)
log.addFilter(CLIENTS)


def check_settings(config: Config) -> None:
    """Make each kind of client once, and close it. 10 ms, 0.2 s with TLS; waits for no broker.

    Raises:
        ConfigError: If a client refuses a setting, or a certificate file cannot be used; or if
            the provider of login tokens is missing, or returns none.
        TokenUnavailableError: If that provider raises, or hangs.
    """
    config.membership()  # its message about a certificate is the clearest
    require_token(config)
    quiet = {"log_level": _CRITICAL}
    with making(config):
        Consumer(without_login({**quiet, **config.data_plane()}), logger=log).close()
        Producer(without_login({**quiet, **config.producer()}), logger=log)


@contextmanager
def making(config: Config) -> Iterator[None]:
    """Translate errors of clients that are made in the block.

    Raises:
        ConfigError: For a setting that librdkafka refuses, named as the user wrote it.
    """
    try:
        yield
    except KafkaException as error:
        if (found := lacking(error)) is not None:
            raise found from error
        with config.hiding_secrets():
            raise _refused(config, error) from error


def _refused(config: Config, error: KafkaException) -> ConfigError:
    detail = error.args[0].str().strip()
    set_by_user = dict(config.passed)
    named = (ALIASES.get(name, name) for name in _WORD.findall(detail))
    name = next((name for name in named if name in set_by_user), None)
    remedy = "Correct it, or leave it out"
    if name is None:
        return ConfigError("a setting", f"is refused by librdkafka ({detail})", remedy)
    problem = f"={set_by_user[name]} is refused by librdkafka ({detail})"
    return ConfigError(name, problem, remedy)


def look_up_leaders(consumer: Consumer, topic: str, partition: int) -> None:
    """Make a Consumer look up the leaders of a topic before it fetches; 3 to 6 ms.

    By itself it asks for a new topic at its next timer, up to 1 s later. A question for the end of
    any partition triggers it at once. `list_topics` often waits 50 ms for a connection.
    """
    with suppress(KafkaException):  # then the timer triggers it
        consumer.get_watermark_offsets(TopicPartition(topic, partition), _LOOK_UP_TIMEOUT_S)


def why_no_offsets(
    consumer: Consumer, topic: str, partition: int, error: KafkaError, principal: str = ""
) -> CoopConsumerError:
    """Our error for a question about a partition's offsets that has failed. Takes up to 1 s.

    "Unknown partition" is librdkafka's own word, also where no broker answers who leads it. Only
    metadata that a broker has just sent tell that a topic or a partition is missing.
    """
    where = f"topic {topic}"
    if error.code() == KafkaError._UNKNOWN_PARTITION:
        try:
            found = consumer.list_topics(topic, _ITS_ANSWER_S).topics[topic]
        except KafkaException as silence:
            error = silence.args[0]
        else:
            is_there = partition in found.partitions
            missing = KafkaError.UNKNOWN_TOPIC_OR_PART
            leaderless = KafkaError.LEADER_NOT_AVAILABLE
            error = found.error or KafkaError(leaderless if is_there else missing)
    return translated(error, where, principal, "read")


class Silence:
    """How long nothing was heard of a client."""

    def __init__(self) -> None:
        self._since_s = monotonic()

    def end(self) -> None:
        """Note that something was heard, or that there is nothing to hear now."""
        self._since_s = monotonic()

    def is_due(self) -> bool:
        """Whether it is time to check the client; starts the next interval if so."""
        if monotonic() - self._since_s < SILENT_S:
            return False
        self._since_s = monotonic()
        return True


def successor(client: Client, make: Callable[[], Client], topic: str) -> Client | None:
    """Replace a client that is cut off from all brokers, if there are brokers.

    librdkafka drops brokers that a metadata answer leaves out. The last broker that shuts down
    leaves itself out. Then the client knows no broker, not even its bootstrap servers. It reports
    nothing and does nothing until it is closed (librdkafka's issue 5301; no setting changes it).
    Takes up to 3 s.

    Args:
        client: The silent client. Its owner repeats whatever the client has not done yet.
        make: Makes a client like it.
        topic: The topic to ask for.

    Returns:
        The new client; None if the old client gets an answer, or if no broker answers.
    """
    try:
        client.list_topics(topic, _ITS_ANSWER_S)
    except KafkaException:
        found = make()
    else:
        return None
    try:
        found.list_topics(topic, _A_NEW_ONES_ANSWER_S)
    except KafkaException:
        close_aside(found)
        return None
    told = "a client has lost every broker, and a new client of the same kind finds them"
    log.warning(told, extra=LogEvent.CLIENT_RENEWED.extra())
    return found


def close_aside(client: Consumer | Producer) -> None:
    """Close a client on a thread of its own, as it may take long; a Producer must be idle."""
    if isinstance(client, Consumer):
        threading.Thread(target=client.close, name="coop-close", daemon=True).start()
