"""The configuration of a member, parsed once at the door, and the settings of each client.

Room: `coop_consumer.config`; no client, no thread, no broker. In: one dict of dotted names, as
confluent-kafka takes it, with this library's own names beside librdkafka's. Out: a frozen `Config`,
or a `ConfigError` that names the setting; from the `Config`, one dict for each client. A `Config`
pickles, so a driver can make it and workers elsewhere use it. Values of the machine (host name,
certificate files) are looked up when a client's dict is made, and placeholders when the `Config`
is made. No secret appears in its `repr`, nor a value that came from a placeholder.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Self

from coop_consumer.config.hiding import HIDDEN, hiding
from coop_consumer.config.librdkafka import (
    BOUNDS,
    CONSUMER,
    LIBRDKAFKA_ALONE,
    PRODUCER,
    SECRETS,
    SHARED,
)
from coop_consumer.config.passed import (
    by_first_names,
    check_bound,
    check_prefetch,
    is_empty,
    number_of,
    passed_on,
)
from coop_consumer.config.placeholders import resolve
from coop_consumer.config.security import (
    Passed,
    check_security,
    data_plane_security,
    membership_security,
)
from coop_consumer.config.setting import Setting, shown
from coop_consumer.config.settings import SETTINGS, TypedSettings
from coop_consumer.config.settings_dict import Settings
from coop_consumer.errors import ConfigError, GroupIdMissingError
from coop_consumer.plain_text import command

PREFETCH_KBYTES = 16_384
"""Enough for 0.1 s at 160 MB/s. A pause throws the prefetch away and fetches it again."""

FETCH_WAIT_MS = 100
"""How long a broker may hold back the answer to a fetch. Every idle member asks ten times a second;
librdkafka's 500 ms would add as much to a start and to a handover."""

MESSAGE_MAX_BYTES = 1_000_000
"""librdkafka's default of message.max.bytes."""

RECONNECT_BACKOFF_MAX_MS = 1_000
"""Both clients come back within a second of a restarted broker; their defaults are 10 and 30 s."""

TRANSACTION_TIMEOUT_MS = 10_000

MEMBERSHIP_KEYWORDS = {
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "retry.backoff.ms": "retry_backoff_ms",
}
"""librdkafka's name → kafka-python's, all whole numbers. Other names only tune the data plane."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Config(TypedSettings):
    """A checked configuration: the typed settings of `TypedSettings`, and librdkafka's as passed.

    Make one with `Config.from_dict`; `dataclasses.replace` makes a changed one, checked again.

    >>> config = Config.from_dict({"bootstrap.servers": "localhost:9092", "group.id": "billing"})
    >>> config.commit_interval_ms, config.ordering.value
    (100, 'key')
    """

    passed: tuple[tuple[str, Passed], ...] = field(default=())
    both_clients: bool = field(default=True)
    """Whether the client of the group membership is made of it, too. False: only librdkafka has to
    understand its security settings."""
    from_placeholders: frozenset[str] = field(default=frozenset(), compare=False)
    """The names of the settings whose values came from `${env:...}` or `${file:...}`."""

    def __post_init__(self) -> None:
        with self.hiding_secrets():
            super().__post_init__()
            passed = dict(self.passed)
            check_security(
                passed,
                token_provider=self.oauth_token_provider is not None,
                both_clients=self.both_clients,
            )
            for name in (*MEMBERSHIP_KEYWORDS, "message.max.bytes"):
                number_of(passed, name, 0)
            for name in BOUNDS.keys() & passed.keys():
                check_bound(passed, name)
            check_prefetch(passed, self.max_bytes_fetcher_filtering)

    @classmethod
    def from_dict(
        cls, mapping: Settings | Mapping[str, object], *, both_clients: bool = True
    ) -> Self:
        """Parse a dict of dotted names; numbers and booleans may be text. O(settings).

        Args:
            mapping: This library's names and librdkafka's, in any mix.
            both_clients: Whether the client of the group membership is made of it, too. If not,
                logins and forms of certificates that only librdkafka knows pass.

        `${env:NAME}` and `${file:PATH}` in values are replaced here, once (see `placeholders`).

        Raises:
            GroupIdMissingError: Without `group.id`.
            ConfigError: For the first wrong setting: an unknown name (the text has the nearest
                known one), a name that may not be set, a value out of bounds, a contradiction, a
                placeholder for what is not there.

        >>> Config.from_dict({"bootstrap.server": "localhost:9092"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        coop_consumer.errors.ConfigError: bootstrap.server is unknown ... is bootstrap.servers.
        """
        if not isinstance(mapping, Mapping):
            raise ConfigError(
                "the configuration",
                f"is {shown(mapping)}, not a dict of dotted names",
                'Give a dict such as {"bootstrap.servers": "b:9092", "group.id": "billing"}',
            )
        named, secret = resolve(by_first_names(mapping))
        ours: dict[str, Any] = {}
        passed: dict[str, Passed] = {}
        with hiding([named[name] for name in secret]):
            for name, value in named.items():
                setting = SETTINGS.get(name)
                if setting is None:
                    passed |= passed_on(name, value, both_clients=both_clients)
                elif not setting.required or not is_empty(value):
                    ours[setting.field] = setting.parse(value)
        if "group_id" not in ours:
            raise GroupIdMissingError
        if "bootstrap_servers" not in ours:
            raise ConfigError(
                "bootstrap.servers", "is missing: no broker to ask", "Set it to host:port"
            )
        return cls(
            **ours,
            passed=tuple(sorted(passed.items())),
            both_clients=both_clients,
            from_placeholders=secret,
        )

    @staticmethod
    def describe() -> tuple[Setting, ...]:
        """The table of this library's own settings, in the order of the documentation."""
        return tuple(SETTINGS.values())

    def differences(self, other: Config) -> list[str]:
        """The dotted names of what the two have different values for."""
        differing = [
            name
            for name, setting in SETTINGS.items()
            if getattr(self, setting.field) != getattr(other, setting.field)
        ]
        ours, theirs = dict(self.passed), dict(other.passed)
        names = sorted({*ours, *theirs})
        return differing + [name for name in names if ours.get(name) != theirs.get(name)]

    def is_secret(self, name: str) -> bool:
        """Whether no text may show the value of a setting."""
        return name in SECRETS or name in self.from_placeholders

    def hiding_secrets(self) -> AbstractContextManager[None]:
        """For a block: the errors about settings that it raises show no secret of these."""
        ours = [
            getattr(self, SETTINGS[name].field) for name in self.from_placeholders & SETTINGS.keys()
        ]
        passed = [value for name, value in self.passed if self.is_secret(name)]
        return hiding([value for value in (*ours, *passed) if value is not None])

    def refuse_circles(
        self, topics: Iterable[str], *, keyed_state: bool = False, outputs: Iterable[str] = ()
    ) -> None:
        """As `TypedSettings.refuse_circles`; the error shows no secret."""
        with self.hiding_secrets():
            super().refuse_circles(topics, keyed_state=keyed_state, outputs=outputs)

    @property
    def command_options(self) -> tuple[str, ...]:
        """Words that `coop-consumer` needs to find this group, without a login or a secret."""
        found = []
        if "bootstrap.servers" not in self.from_placeholders:
            found += ["--bootstrap", self.bootstrap_servers]
        is_default = self.progress_topic == SETTINGS["progress.topic"].default
        if not (is_default or "progress.topic" in self.from_placeholders):
            found += ["--config", f"progress.topic={self.progress_topic}"]
        return tuple(found)

    def command(self, *words: object) -> str:
        """A line for a shell that runs `coop-consumer` with these words where this group is."""
        return command(*words, options=self.command_options)

    @property
    def transaction_timeout_ms(self) -> int:
        """`transaction.timeout.ms`: so long brokers leave a transaction open."""
        return number_of(dict(self.passed), "transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)

    @property
    def statistics_interval_ms(self) -> int:
        """`statistics.interval.ms`: how often clients say how they are; 0: they do not."""
        return number_of(dict(self.passed), "statistics.interval.ms", 0)

    @property
    def user(self) -> str:
        """The name that logs in, for messages; "" without one."""
        return str(dict(self.passed).get("sasl.username", ""))

    @property
    def host_name(self) -> str:
        """`host`, or the name of the machine that asks."""
        return self.host or platform.node()

    def data_plane(self) -> dict[str, Any]:
        """The dict of the confluent Consumer that fetches the topics. O(settings).

        It never joins the group, stores no offset, and starts at explicit offsets: an offset out
        of range is an error to act on, not a reset.
        """
        prefetch_kbytes = min(PREFETCH_KBYTES, self.max_bytes_fetcher_filtering // 1024)
        message_max_bytes = number_of(dict(self.passed), "message.max.bytes", MESSAGE_MAX_BYTES)
        return {
            **self._connection(),
            # A fetch that found the queue full would sleep a second; 1 ms costs nothing measurable.
            "fetch.queue.backoff.ms": 1,
            # A partition that comes waits for the answer under way, of those that have nothing new.
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "queued.max.messages.kbytes": prefetch_kbytes,
            # One answer must not be larger than the whole prefetch, yet may hold any one message.
            "fetch.max.bytes": max(prefetch_kbytes * 1024, message_max_bytes),
            **self._passed_of(SHARED | LIBRDKAFKA_ALONE | CONSUMER),
            **self._reader(),
            "isolation.level": self.isolation_level.value,
        }

    def progress_reader(self, *, committed: bool = False) -> dict[str, Any]:
        """The dict of a confluent Consumer that reads the progress topic. O(settings).

        Args:
            committed: Read only to the last stable offset, as a transactional group must. A plain
                one reads to the end: another group's open transaction must not hold it up.
        """
        return {
            **self._connection(),
            "fetch.queue.backoff.ms": 1,
            # The broker delays an empty answer this long, and only that answer shows the end.
            "fetch.wait.max.ms": 50,
            **self._passed_of(SHARED | LIBRDKAFKA_ALONE),
            **self._reader(),
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }

    def producer(self, transactional_id: str | None = None) -> dict[str, Any]:
        """The dict of the confluent Producer of progress, dead letters and outputs. O(settings).

        Args:
            transactional_id: For exactly-once groups; without it the producer is idempotent only.
        """
        transaction: dict[str, Any] = {}
        if transactional_id is not None:
            transaction = {"transactional.id": transactional_id}
        return {
            **self._connection(),
            # A commit waits for its record; a millisecond still gathers what is due together.
            "linger.ms": 1,
            # Other members wait behind an open transaction of a dead one.
            **({"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS} if transaction else {}),
            **self._passed_of(SHARED | LIBRDKAFKA_ALONE | PRODUCER),
            "enable.idempotence": True,
            "acks": "all",
            **transaction,
        }

    def admin(self) -> dict[str, Any]:
        """The dict of the confluent AdminClient. O(settings)."""
        return {**self._connection(), **self._passed_of(SHARED | LIBRDKAFKA_ALONE)}

    def membership(self) -> dict[str, Any]:
        """The keyword arguments of kafka-python's KafkaConsumer, which only joins the group.

        Reads the certificate files, so call it in the process that joins. O(settings).

        Raises:
            ConfigError: If a certificate or key file cannot be used.
        """
        assert self.both_clients, "made for librdkafka alone"
        with self.hiding_secrets():
            return self._membership()

    def _membership(self) -> dict[str, Any]:
        passed: dict[str, Passed] = {"reconnect.backoff.max.ms": RECONNECT_BACKOFF_MAX_MS}
        passed |= dict(self.passed)
        keywords: dict[str, Any] = {
            keyword: number_of(passed, name, 0)
            for name, keyword in MEMBERSHIP_KEYWORDS.items()
            if name in passed
        }
        if self.group_instance_id is not None:
            keywords["group_instance_id"] = self.group_instance_id
        return {
            **keywords,
            **membership_security(passed),
            **self._provider("sasl_oauth_token_provider"),
            "bootstrap_servers": [server.strip() for server in self.bootstrap_servers.split(",")],
            "client_id": self.client_id,
            "group_id": self.group_id,
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": self.heartbeat_interval_ms,
            "max_poll_interval_ms": self.max_poll_interval_ms,
            "metadata_max_age_ms": self.metadata_max_age_ms,
            "enable_auto_commit": False,
            "allow_auto_create_topics": False,
        }

    def __repr__(self) -> str:
        """Settings that differ from the defaults, by dotted name; secrets as `***`."""
        ours = {
            setting.name: getattr(self, setting.field)
            for setting in SETTINGS.values()
            if setting.required or getattr(self, setting.field) != setting.default
        }
        shown_as = {
            name: HIDDEN if self.is_secret(name) else value
            for name, value in (*ours.items(), *self.passed)
        }
        return f"Config({', '.join(f'{name}={value}' for name, value in shown_as.items())})"

    def _connection(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": self.client_id,
            "reconnect.backoff.max.ms": RECONNECT_BACKOFF_MAX_MS,
            "topic.metadata.refresh.interval.ms": self.metadata_max_age_ms,
            **data_plane_security(dict(self.passed)),
            **self._provider("oauth.token.provider"),
        }

    def _provider(self, name: str) -> dict[str, Any]:
        """The provider of login tokens under this name, as text: `kafka.token_login` calls it."""
        return {} if self.oauth_token_provider is None else {name: self.oauth_token_provider}

    def _reader(self) -> dict[str, Any]:
        return {
            "group.id": self.group_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }

    def _passed_of(self, names: Iterable[str]) -> dict[str, Passed]:
        wanted = set(names)
        return {name: value for name, value in self.passed if name in wanted}
