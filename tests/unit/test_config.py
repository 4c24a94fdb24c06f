"""Is a configuration checked at the door, with a text that tells what to do?"""

from __future__ import annotations

import dataclasses
import os
import pickle
import platform

import pytest

from coop_consumer.config import (
    AssignorName,
    Config,
    IsolationLevel,
    OffsetReset,
    OnDataLoss,
    OnFailure,
    Ordering,
    Split,
)
from coop_consumer.config.setting import Setting
from coop_consumer.config.settings import SETTINGS
from coop_consumer.errors import ConfigError, GroupIdMissingError

LEAST = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}
NUMBERS = [setting for setting in SETTINGS.values() if setting.kind is int]
ONCE = {"processing_guarantee": "exactly_once"}


def config(**changes: object) -> Config:
    """A configuration with settings named as keywords: `a_b` is `a.b`."""
    named = {name.replace("_", "."): value for name, value in changes.items()}
    return Config.from_dict(LEAST | named)


def refusal(**changes: object) -> str:
    with pytest.raises(ConfigError) as caught:
        config(**changes)
    return str(caught.value)


def by_name(setting: Setting) -> str:
    return setting.name


def test_the_least_configuration_has_the_documented_defaults() -> None:
    least = config()

    assert (least.ordering, least.assignor, least.split) == ("key", "sticky", "auto")
    assert (least.on_failure, least.on_data_loss) == ("park", "warn")
    assert least.auto_offset_reset == "earliest"
    assert least.isolation_level == "read_committed"
    assert least.progress_topic == "__individual_commit_offsets"
    assert least.max_num_ranges_to_commit == 10_000
    assert least.max_num_ranges_held == 60_000
    assert least.max_bytes_key_range_cache == 209_715_200
    assert least.max_bytes_fetcher_filtering == 104_857_600
    assert least.individual_commit_log_segment_bytes == 10_485_760
    assert least.allow_individual_commit is True
    assert least.accept_individual_commit is True
    assert (least.session_timeout_ms, least.heartbeat_interval_ms) == (10_000, 500)


def test_every_setting_may_come_as_text() -> None:
    defaults = config()
    as_text = {
        name: setting.default_words
        for name, setting in SETTINGS.items()
        if setting.default is not None
    }

    assert Config.from_dict(LEAST | as_text) == defaults


def test_text_is_parsed_to_the_type_of_the_setting() -> None:
    parsed = config(
        ordering="NONE",
        assignor="range",
        split="always",
        capacity=" 64 ",
        progress_topic_create="False",
        commit_interval_ms="10_000",
        on_failure="dead_letter",
        on_data_loss="stop",
        auto_offset_reset="largest",
        isolation_level="read_uncommitted",
    )

    assert parsed.ordering is Ordering.NONE
    assert parsed.assignor is AssignorName.RANGE
    assert parsed.split is Split.ALWAYS
    assert parsed.capacity == 64
    assert parsed.progress_topic_create is False
    assert parsed.commit_interval_ms == 10_000
    assert parsed.on_failure is OnFailure.DEAD_LETTER
    assert parsed.on_data_loss is OnDataLoss.STOP
    assert parsed.auto_offset_reset is OffsetReset.LATEST
    assert parsed.isolation_level is IsolationLevel.READ_UNCOMMITTED


@pytest.mark.parametrize("setting", NUMBERS, ids=by_name)
def test_a_number_below_its_bound_is_refused_with_the_reason(setting: Setting) -> None:
    assert setting.about.low is not None
    below = setting.about.low - 1

    with pytest.raises(ConfigError) as caught:
        Config.from_dict(LEAST | {setting.name: below})

    text = f"{setting.name}={below} is below {setting.about.low}: {setting.about.why}. "
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    "setting", [setting for setting in NUMBERS if setting.about.high is not None], ids=by_name
)
def test_a_number_above_its_bound_is_refused_with_the_reason(setting: Setting) -> None:
    assert setting.about.high is not None
    above = str(setting.about.high + 1)

    with pytest.raises(ConfigError) as caught:
        Config.from_dict(LEAST | {setting.name: above})

    text = f"{setting.name}={above} is above {setting.about.high}: {setting.about.why}. "
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("setting", NUMBERS, ids=by_name)
@pytest.mark.parametrize("value", ["many", "", 1.5, True, [1]], ids=repr)
def test_what_is_no_whole_number_is_refused(setting: Setting, value: object) -> None:
    with pytest.raises(ConfigError, match="is not a whole number"):
        Config.from_dict(LEAST | {setting.name: value})


def test_a_bound_may_be_reached() -> None:
    assert config(commit_interval_ms=5).commit_interval_ms == 5
    assert config(session_timeout_ms=1_800_000).session_timeout_ms == 1_800_000


def test_the_text_of_a_broken_bound_reads_as_documented() -> None:
    assert refusal(commit_interval_ms=1) == (
        "commit.interval.ms=1 is below 5: every commit is a record in the log, and "
        "uncommitted records repeat after a crash. Nothing was started. Choose 5 to 60000."
    )


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("ordering", "keys", "Choose key, partition or none"),
        ("on.failure", "retry", "Choose park, stop, skip or dead_letter"),
        ("auto.offset.reset", "error", "Choose earliest or latest"),
        ("progress.topic.create", "yes", "Choose true or false"),
        ("progress.topic", "my topic", "Choose 1 to 249 of the characters"),
        ("progress.topic", "..", "Choose 1 to 249 of the characters"),
        ("group.instance.id", "", "Choose 1 to 249 of the characters"),
        ("dead.letter.topic", "{topic}", "must not be its own dead-letter topic"),
        ("dead.letter.topic", "{group}.dlq", "{topic} stands for the record's topic"),
        ("client.id", 7, "is not text"),
    ],
)
def test_what_is_no_choice_or_no_name_is_refused(name: str, value: object, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(LEAST | {name: value})

    assert str(caught.value).startswith(f"{name}={value} is not ")
    assert told in str(caught.value)


@pytest.mark.parametrize("missing", [{}, {"group.id": ""}, {"group.id": None}])
def test_a_missing_group_id_has_an_error_of_its_own(missing: dict[str, object]) -> None:
    with pytest.raises(GroupIdMissingError, match=r"group\.id is missing.*Set group\.id"):
        Config.from_dict({"bootstrap.servers": "localhost:9092"} | missing)


def test_a_misspelled_group_id_is_unknown_before_it_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"group_id is unknown .* nearest name is group\.id"):
        Config.from_dict({"bootstrap.servers": "localhost:9092", "group_id": "billing"})


@pytest.mark.parametrize("value", [["billing"], 7, b"billing"], ids=repr)
def test_a_group_id_is_text(value: object) -> None:
    with pytest.raises(ConfigError, match="is not text"):
        Config.from_dict(LEAST | {"group.id": value})


def test_missing_brokers_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is missing"):
        Config.from_dict({"group.id": "billing"})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"heartbeat_interval_ms": 2_000, "session_timeout_ms": 6_000}, "heartbeat.interval.ms"),
        ({"heartbeat_interval_ms": 900, "max_poll_interval_ms": 1_000}, "max.poll.interval.ms"),
        ({"split": "always", "ordering": "partition"}, "split"),
        ({"split": "always", "allow_individual_commit": False}, "split"),
        ({"split": "always", "accept_individual_commit": False}, "split"),
        ({"attempt_backoff_ms": 200, "attempt_backoff_max_ms": 100}, "attempt.backoff.ms"),
        ({"max_num_ranges_held": 9_999}, "max.num.ranges.to.commit"),
        ({"max_records_per_key": 11, "max_records_in_lanes": 10}, "max.records.per.key"),
        ({"capacity": 65, "max_records_in_lanes": 64}, "max.records.in.lanes"),
        (
            {"queued_max_messages_kbytes": 2_048, "max_bytes_fetcher_filtering": 1_048_576},
            "queued.max.messages.kbytes",
        ),
        ({**ONCE, "isolation_level": "read_uncommitted"}, "isolation.level"),
        ({**ONCE, "upgrade_from": "range"}, "upgrade.from"),
        ({**ONCE, "group_id": "billing of May"}, "group.id"),
        ({**ONCE, "group_id": "b" * 240}, "group.id"),
    ],
)
def test_settings_that_contradict_are_refused(changes: dict[str, object], named: str) -> None:
    assert refusal(**changes).startswith(named)


def test_exactly_once_has_a_log_of_its_own_and_no_commit_by_number() -> None:
    least, once = config(), config(**ONCE)
    assert (least.progress_log, least.commit_at_records) == ("__individual_commit_offsets", 256)
    assert once.progress_log == "__individual_commit_offsets-billing"
    assert once.commit_at_records > 10**9
    assert config(**ONCE, commit_max_records=7).commit_at_records == 7
    with pytest.raises(ConfigError, match=r"makes .*-billing, which is consumed"):
        once.refuse_circles([once.progress_log])
    for ours in (once.progress_log, once.progress_topic, "billing-orders-state"):
        with pytest.raises(ConfigError, match=f"^output.topics={ours} is where"):
            once.refuse_circles(["orders"], keyed_state=True, outputs=[ours])


def test_a_heartbeat_just_below_a_third_of_the_session_is_fine() -> None:
    made = config(heartbeat_interval_ms=1_999, session_timeout_ms=6_000)

    assert made.heartbeat_interval_ms == 1_999


def test_a_changed_copy_is_checked_again() -> None:
    changed = dataclasses.replace(config(), commit_interval_ms=50)

    assert changed.commit_interval_ms == 50
    with pytest.raises(ConfigError, match=r"commit\.interval\.ms=1 is below 5"):
        dataclasses.replace(changed, commit_interval_ms=1)
    with pytest.raises(GroupIdMissingError):
        dataclasses.replace(changed, group_id="")


def test_a_configuration_is_frozen_and_survives_the_way_to_another_process() -> None:
    made = config(client_rack="r1", capacity=3)

    with pytest.raises(dataclasses.FrozenInstanceError):
        made.capacity = 4  # type: ignore[misc]  # that it cannot be set is what is tested
    arrived = pickle.loads(pickle.dumps(made))  # noqa: S301  # our own bytes
    assert arrived == made
    assert hash(arrived) == hash(made)


def test_a_password_is_in_no_repr_and_no_error() -> None:
    secret = "hunter2"  # noqa: S105
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": secret,
    }

    shown = repr(Config.from_dict(LEAST | login))

    assert secret not in shown
    assert "sasl.password=***" in shown
    assert "sasl.username=alice" in shown
    for name, broken in (
        ("security.protocol", "PLAINTEXT"),
        ("sasl.username", ""),
        ("capacity", 0),
    ):
        with pytest.raises(ConfigError) as caught:
            Config.from_dict(LEAST | login | {name: broken})
        assert secret not in f"{caught.value} {caught.value!r}"


def test_what_follows_from_other_settings_is_derived() -> None:
    least = config()

    assert least.capacity_for(workers=16) == 16
    assert config(capacity=4).capacity_for(workers=16) == 4
    assert least.records_per_key_max == 2_000
    assert config(max_records_in_lanes=5).records_per_key_max == 1
    assert config(max_records_per_key=7).records_per_key_max == 7
    assert least.dead_letter_topic_for("orders") == "orders.dlq"
    assert config(dead_letter_topic="failed").dead_letter_topic_for("orders") == "failed"
    assert least.host_name == platform.node()
    assert config(host="rack7-3").host_name == "rack7-3"


def test_there_are_as_many_processes_as_cores_that_may_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 7})
    assert config().workers_on("process") == 3


def test_the_table_says_of_every_setting_what_it_means_and_why() -> None:
    assert Config.describe() == tuple(SETTINGS.values())
    for setting in Config.describe():
        assert setting.about.meaning.endswith(".")
        assert setting.about.why
        assert not setting.about.why.endswith(".")
        assert setting.kind is not int or setting.about.low is not None
        assert setting.required or setting.default is not None or setting.about.derived


@pytest.mark.parametrize(
    "servers",
    ["b:9092", "b", "a:1,b:2", " a:1 , b:2 ", "PLAINTEXT://10.0.0.1:9092", "[::1]:9092,b_c-d.e:1"],
)
def test_servers_that_both_clients_can_read_are_taken(servers: str) -> None:
    assert config(bootstrap_servers=servers).bootstrap_servers == servers.strip()


@pytest.mark.parametrize("servers", ["b:kafka", ":9092", "a:1;b:2", "a b:1", "a:1,", "http://b/x"])
def test_servers_that_a_client_would_take_for_another_place_are_refused(servers: str) -> None:
    assert "is not host:port, or several between commas" in refusal(bootstrap_servers=servers)
