"""What all of librdkafka's clients have in common: how they are checked, and where they log.

In: a configuration; lines of their logs. Out: nothing if all clients can be made of it, else a
`ConfigError` that names the setting; fewer lines. Only they can judge the values of their settings.
A member asks before anything runs: a client that cannot be made later, on a thread of its own,
would leave a member in the group that fetches nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, Producer

from coop_consumer.config import Config
from coop_consumer.config.librdkafka import ALIASES, SECRETS
from coop_consumer.errors import ConfigError
from coop_consumer.log_filter import Seldom

_WORD = re.compile(r"[a-z_.]+")

_CRITICAL = 2
"""That no broker answers is another question, and asked later."""

log = logging.getLogger(__name__)
log.addFilter(Seldom())


def check_settings(config: Config) -> None:
    """Make each kind of client once, and close it. 10 ms, with TLS some 0.2 s; waits for no broker.

    Raises:
        ConfigError: If a client refuses a setting, or a certificate file cannot be used.
    """
    config.membership()  # it tells best what is wrong with a certificate
    with making(config):
        Consumer({"log_level": _CRITICAL, **config.data_plane()}, logger=log).close()
        Producer({"log_level": _CRITICAL, **config.producer()}, logger=log)


@contextmanager
def making(config: Config) -> Iterator[None]:
    """Clients of this configuration are made in the block.

    Raises:
        ConfigError: For a setting that librdkafka refuses, named as the user wrote it.
    """
    try:
        yield
    except KafkaException as error:
        detail = error.args[0].str().strip()
        set_by_user = dict(config.passed)
        named = (ALIASES.get(name, name) for name in _WORD.findall(detail))
        name = next((name for name in named if name in set_by_user), None)
        if name is None:
            raise ConfigError(
                "a setting", f"is refused by librdkafka ({detail})", "Correct it, or leave it out"
            ) from error
        value = "***" if name in SECRETS else set_by_user[name]
        raise ConfigError(
            name, f"={value} is refused by librdkafka ({detail})", "Correct it, or leave it out"
        ) from error
