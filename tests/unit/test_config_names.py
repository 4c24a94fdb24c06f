"""Does each client get what it understands, and is every other name refused with the right one?

Clients are made but never reach a broker: the names are theirs to accept.
"""

from __future__ import annotations

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from coop_consumer.config import Config
from coop_consumer.config.librdkafka import (
    ALIASES,
    CONSUMER,
    DECIDED,
    LIBRDKAFKA_ALONE,
    PASSED,
    PRODUCER,
    REFUSED,
    SECRETS,
    SHARED,
    refusal_of,
)
from coop_consumer.config.settings import SETTINGS
from coop_consumer.errors import ConfigError

# Nothing listens on port 1; log_level 0 keeps the clients quiet about it.
LEAST = {"bootstrap.servers": "127.0.0.1:1", "group.id": "billing", "log_level": 0}


def config(**changes: object) -> Config:
    return Config.from_dict(LEAST | {name.replace("_", "."): v for name, v in changes.items()})


def is_known_to_librdkafka(name: str) -> bool:
    """Offers the name before one that surely fails: no client is made, whatever the answer."""
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        confluent_kafka.Consumer({"group.id": "g", name: "1", "surely.unknown": "1"})
    return f'No such configuration property: "{name}"' not in str(caught.value)


def test_the_probe_tells_known_names_from_unknown_ones() -> None:
    assert is_known_to_librdkafka("fetch.wait.max.ms")
    assert not is_known_to_librdkafka("fetch.wait.maximum.ms")


@pytest.mark.parametrize("name", sorted(PASSED | LIBRDKAFKA_ALONE | set(ALIASES) | set(DECIDED)))
def test_every_name_passed_on_is_known_to_the_installed_librdkafka(name: str) -> None:
    assert is_known_to_librdkafka(name)


def test_a_name_has_one_fate() -> None:
    fates = [set(SETTINGS), SHARED, CONSUMER, PRODUCER, set(ALIASES), set(DECIDED), set(REFUSED)]

    assert sum(len(fate) for fate in fates) == len(set().union(*fates))
    assert set(ALIASES.values()) <= set(SETTINGS) | PASSED | set(DECIDED) | LIBRDKAFKA_ALONE
    assert SECRETS <= PASSED | LIBRDKAFKA_ALONE


@pytest.mark.parametrize("name", sorted(LIBRDKAFKA_ALONE))
def test_what_one_of_two_clients_knows_passes_only_where_it_is_alone(name: str) -> None:
    assert name not in PASSED
    assert refusal_of(name) is not None


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("bootstrap.server", "bootstrap.servers"),
        ("bootstrap_servers", "bootstrap.servers"),
        ("commit.intervall.ms", "commit.interval.ms"),
        ("Max.Attempts", "max.attempts"),
        ("onfailure", "on.failure"),
        ("fetch.max.wait.ms", "fetch.wait.max.ms"),
        ("sasl.user", "sasl.username"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_right_one(wrong: str, right: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(LEAST | {wrong: "1"})

    assert str(caught.value) == (
        f"{wrong} is unknown to this library and to librdkafka. Nothing was started. "
        f"The nearest name is {right}."
    )


def test_a_name_near_to_nothing_is_still_refused() -> None:
    with pytest.raises(ConfigError, match="No known name is near to it"):
        Config.from_dict(LEAST | {"xyzzy": "1"})


def test_an_argument_that_is_given_as_a_setting_is_told_to_be_one() -> None:
    with pytest.raises(ConfigError, match=r"executor= of WorkerPool, or --executor of"):
        Config.from_dict(LEAST | {"executor": "process"})


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refused_name_says_why_and_what_instead(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(LEAST | {name: "1"})

    assert caught.value.name == name
    assert caught.value.problem == f"may not be set: {REFUSED[name].why}"
    assert caught.value.remedy == REFUSED[name].remedy


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("sasl.oauthbearer.config", "only librdkafka would get tokens by it"),
        ("sasl.kerberos.keytab", "ticket cache"),
        ("ssl.truststore.location", "Java key stores"),
        ("key.deserializer", "records come as bytes"),
        ("ssl.engine.id", "Python's ssl module"),
    ],
)
def test_a_family_of_names_is_refused_as_one(name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Config.from_dict(LEAST | {name: "1"})


def test_a_passed_name_is_not_refused_with_its_family() -> None:
    assert refusal_of("sasl.kerberos.service.name") is None


@pytest.mark.parametrize(
    ("name", "same", "other"),
    [
        ("enable.auto.commit", False, True),
        ("auto.commit.enable", "False", "true"),
        ("enable.auto.offset.store", "false", "true"),
        ("enable.partition.eof", True, False),
        ("group.protocol", "classic", "consumer"),
        ("enable.idempotence", "true", "false"),
        ("acks", -1, 1),
        ("request.required.acks", "all", "0"),
        ("allow.auto.create.topics", False, True),
    ],
)
def test_what_is_decided_here_may_be_repeated_but_not_changed(
    name: str, same: object, other: object
) -> None:
    assert Config.from_dict(LEAST | {name: same}) == config()
    with pytest.raises(ConfigError, match=f"={other} is not possible: .*Leave it out"):
        Config.from_dict(LEAST | {name: other})


def test_two_names_of_one_setting_must_not_differ() -> None:
    with pytest.raises(ConfigError, match=r"metadata\.broker\.list is another name of bootstrap"):
        Config.from_dict(LEAST | {"metadata.broker.list": "elsewhere:9092"})
    twice = Config.from_dict(LEAST | {"metadata.broker.list": LEAST["bootstrap.servers"]})
    assert twice == config()


@pytest.mark.parametrize("value", [None, print, ["a"], b"bytes"], ids=repr)
def test_a_value_that_no_file_could_hold_is_not_passed(value: object) -> None:
    with pytest.raises(ConfigError, match=r"client\.rack is of the type "):
        config(client_rack=value)


def test_a_number_that_both_clients_need_is_checked_at_the_door() -> None:
    with pytest.raises(ConfigError, match=r"retry\.backoff\.ms=soon is not a whole number"):
        config(retry_backoff_ms="soon")


def test_the_fetcher_neither_commits_nor_resets_nor_joins() -> None:
    data_plane = config(auto_offset_reset="latest", group_instance_id="billing-1").data_plane()

    assert data_plane["enable.auto.commit"] is False
    assert data_plane["enable.auto.offset.store"] is False
    assert data_plane["enable.partition.eof"] is True
    assert data_plane["auto.offset.reset"] == "error"
    assert data_plane["fetch.queue.backoff.ms"] == 1
    assert data_plane["isolation.level"] == "read_committed"
    assert "group.instance.id" not in data_plane
    assert "partition.assignment.strategy" not in data_plane


@pytest.mark.parametrize(
    ("changes", "kbytes", "fetch_bytes"),
    [
        ({}, 16_384, 16_777_216),
        ({"max_bytes_fetcher_filtering": 1_048_576}, 1_024, 1_048_576),
        ({"queued_max_messages_kbytes": 65_536}, 65_536, 16_777_216),
        ({"max_bytes_fetcher_filtering": 1_048_576, "message_max_bytes": "9000000"}, 1_024, 9e6),
        ({"fetch_max_bytes": 5_000_000}, 16_384, 5_000_000),
    ],
)
def test_the_prefetch_is_small_unless_asked_for(
    changes: dict[str, object], kbytes: int, fetch_bytes: float
) -> None:
    data_plane = config(**changes).data_plane()

    assert data_plane["queued.max.messages.kbytes"] == kbytes
    assert data_plane["fetch.max.bytes"] == fetch_bytes


def test_a_fetch_that_finds_nothing_is_answered_soon_unless_asked_otherwise() -> None:
    assert config().data_plane()["fetch.wait.max.ms"] == 100
    assert config(fetch_wait_max_ms=500).data_plane()["fetch.wait.max.ms"] == 500


def test_each_client_gets_the_names_of_its_kind() -> None:
    made = config(socket_keepalive_enable=True, fetch_min_bytes=7, compression_type="lz4")

    assert made.data_plane()["fetch.min.bytes"] == 7
    assert made.producer()["compression.type"] == "lz4"
    for view in (made.data_plane(), made.progress_reader(), made.producer(), made.admin()):
        assert view["socket.keepalive.enable"] is True
        assert view["client.id"] == "coop-consumer"
        assert ("fetch.min.bytes" in view) == (view == made.data_plane())
        assert ("compression.type" in view) == (view == made.producer())


def test_the_progress_reader_reads_to_the_last_stable_offset_only_when_asked() -> None:
    made = config(isolation_level="read_uncommitted")

    assert made.progress_reader()["isolation.level"] == "read_uncommitted"
    assert made.progress_reader(committed=True)["isolation.level"] == "read_committed"
    assert made.progress_reader()["auto.offset.reset"] == "error"


def test_the_producer_is_idempotent_and_transactional_only_when_asked() -> None:
    made = config()

    assert made.producer()["enable.idempotence"] is True
    assert made.producer()["acks"] == "all"
    assert "transactional.id" not in made.producer()
    transactional = made.producer(transactional_id="billing-1-7")
    assert transactional["transactional.id"] == "billing-1-7"
    assert transactional["transaction.timeout.ms"] == 10_000
    slow = config(transaction_timeout_ms=60_000).producer(transactional_id="billing-1-7")
    assert slow["transaction.timeout.ms"] == 60_000


def test_the_membership_gets_the_times_of_the_group_and_never_commits_by_itself() -> None:
    membership = config(
        bootstrap_servers="a:1, b:2",
        group_instance_id="billing-1",
        reconnect_backoff_ms="20",
        session_timeout_ms=6_000,
    ).membership()

    assert membership == {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_id": "coop-consumer",
        "group_id": "billing",
        "group_instance_id": "billing-1",
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 500,
        "max_poll_interval_ms": 15_000,
        "metadata_max_age_ms": 30_000,
        "reconnect_backoff_ms": 20,
        "reconnect_backoff_max_ms": 1_000,
        "security_protocol": "PLAINTEXT",
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
    }
    assert set(membership) <= set(KafkaConsumer.DEFAULT_CONFIG)


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "hunter2",
        },
        {"max.bytes.fetcher.filtering": 1_048_576, "message.max.bytes": 9_000_000},
        {"max.bytes.fetcher.filtering": 2_097_151 * 1024, "queued.max.messages.kbytes": 2_097_151},
    ],
    ids=["least", "scram", "small prefetch", "large prefetch"],
)
def test_the_installed_clients_accept_what_they_get(extra: dict[str, object]) -> None:
    made = Config.from_dict(LEAST | extra)

    for view in (made.data_plane(), made.progress_reader(), made.progress_reader(committed=True)):
        confluent_kafka.Consumer(view).close()
    confluent_kafka.Producer(made.producer())
    confluent_kafka.Producer(made.producer(transactional_id="billing-1-7"))
    AdminClient(made.admin())
