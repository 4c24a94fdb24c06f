"""The judgements of a check-up: a progress topic held against Kafka's own, rights, the worst."""

from __future__ import annotations

import pytest

from coop_consumer.errors import ExitCode, TopicMissingError
from coop_consumer.status.finding import (
    Finding,
    Severity,
    TopicShape,
    create_command,
    fail,
    failed_by,
    judge_dead_letters,
    judge_progress_topic,
    judge_rights,
    judge_transactions,
    ok,
    warn,
    worst_exit_code,
)

WANTED = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "60000",
    "min.compaction.lag.ms": "60000",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "LogAppendTime",
}
OFFSETS = TopicShape("__consumer_offsets", 50, 3, {"min.insync.replicas": "2"})


def judged(
    settings: dict[str, str] | None = None,
    *,
    replication: int = 3,
    like: TopicShape | None = OFFSETS,
) -> list[Finding]:
    given = WANTED | {"min.insync.replicas": "2"} | (settings or {})
    return judge_progress_topic(TopicShape("p", 50, replication, given), like, WANTED, 3, "b:9092")


def test_a_progress_topic_like_kafkas_own_is_fine() -> None:
    [finding] = judged()
    assert finding.level is Severity.OK
    assert finding.text == "compacted, 50 partitions, kept 3 times, min.insync.replicas=2"


@pytest.mark.parametrize(
    ("settings", "level", "text"),
    [
        ({"cleanup.policy": "delete"}, Severity.FAIL, "progress would be deleted by age"),
        ({"cleanup.policy": "compact,delete"}, Severity.WARN, "idle groups is deleted"),
        ({"min.insync.replicas": "1"}, Severity.WARN, "is below the 2 of __consumer_offsets"),
        ({"min.insync.replicas": "3"}, Severity.WARN, "no broker may fail"),
        ({"delete.retention.ms": "10"}, Severity.WARN, "delete.retention.ms=10 is below 60000"),
        ({"min.compaction.lag.ms": "0"}, Severity.WARN, "min.compaction.lag.ms=0 is below 60000"),
    ],
)
def test_each_weakness_is_one_finding_with_a_remedy(
    settings: dict[str, str], level: Severity, text: str
) -> None:
    [finding] = judged(settings)
    assert finding.level is level
    assert text in finding.text
    assert finding.remedy


def test_fewer_copies_than_committed_offsets_have_is_a_warning() -> None:
    [finding] = judged({"min.insync.replicas": "1"}, replication=1, like=None)
    assert "kept once, while committed offsets are kept 3 times" in finding.text


def test_settings_that_may_not_be_seen_are_said_to_be_unchecked() -> None:
    [finding] = judge_progress_topic(TopicShape("p", 50, 3, {}), OFFSETS, WANTED, 3, "b:9092")
    assert finding.level is Severity.WARN
    assert "not checked" in finding.text


def test_missing_rights_are_named_with_the_resource() -> None:
    finding = judge_rights("topic p", ["READ"], ["READ", "WRITE", "DESCRIBE"], "ann", "b:9092")
    assert finding.text == "not allowed: describe, write"
    assert finding.remedy == (
        "kafka-acls.sh --bootstrap-server b:9092 --add --allow-principal User:ann "
        "--operation Describe --operation Write --topic p"
    )
    assert finding.exit_code is ExitCode.UNAUTHORIZED


def test_the_exit_code_is_that_of_the_first_failure() -> None:
    first = failed_by("topic a", TopicMissingError("a"))
    assert worst_exit_code([ok("x", ""), warn("y", "", "z")]) is ExitCode.OK
    assert worst_exit_code([warn("y", "", "z"), first, fail("q", "", "")]) is ExitCode.MISSING
    assert first.text.startswith("does not exist")  # the check is named once


def test_the_create_command_carries_shape_and_settings() -> None:
    command = create_command("b:9092", TopicShape("p", 50, 3, {"cleanup.policy": "compact"}))
    assert command == (
        "kafka-topics.sh --bootstrap-server b:9092 --create --topic p --partitions 50 "
        "--replication-factor 3 --config cleanup.policy=compact"
    )


@pytest.mark.parametrize(
    ("settings", "text", "remedy"),
    [
        ({"max.message.bytes": "100000"}, "below 1048588", "max.message.bytes=1048588"),
        (
            {"message.timestamp.type": "CreateTime"},
            "clock is an hour ahead",
            "message.timestamp.type=LogAppendTime",
        ),
    ],
)
def test_a_topic_that_may_refuse_what_members_write_is_a_warning_with_the_command(
    settings: dict[str, str], text: str, remedy: str
) -> None:
    [found] = judged(settings)
    assert found.level is Severity.WARN
    assert text in found.text
    assert found.remedy == (
        "kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type topics "
        f"--entity-name p --add-config {remedy}"
    )


def letters_of(limit: str | None) -> Finding:
    orders = TopicShape("orders", 3, 1, {"max.message.bytes": "5000000"})
    letters = None if limit is None else TopicShape("d", 3, 1, {"max.message.bytes": limit})
    [found] = judge_dead_letters(orders, letters, "d", "b:9092")
    return found


def test_a_dead_letter_topic_keeps_every_letter_as_safely_as_its_topic() -> None:
    orders = TopicShape("orders", 3, 3, {})
    found = judge_dead_letters(
        orders, TopicShape("d", 3, 1, {"cleanup.policy": "compact,delete"}), "d", "b:9092"
    )
    assert [it.level for it in found] == [Severity.WARN] * 2
    assert "one letter of a key is kept" in found[0].text
    assert found[0].remedy.endswith("--entity-name d --add-config cleanup.policy=delete")
    assert found[1].text == "kept once, and orders 3 times"


def test_a_dead_letter_topic_has_to_take_what_its_topic_takes_and_the_headers() -> None:
    assert letters_of("5004096").level is Severity.OK
    small = letters_of("5000000")
    assert small.level is Severity.WARN
    assert small.remedy.endswith("--entity-name d --add-config max.message.bytes=5004096")
    missing = letters_of(None)
    assert "does not exist" in missing.text
    assert "--create --topic d " in missing.remedy
    assert "--config max.message.bytes=5004096" in missing.remedy


@pytest.mark.parametrize(
    ("copies", "brokers", "warns"),
    [(1, 3, True), (1, 2, True), (2, 3, False), (3, 3, False), (1, 1, False), (-1, 3, False)],
)
def test_what_transactions_write_to_is_kept_more_than_once_where_it_can_be(
    copies: int, brokers: int, *, warns: bool
) -> None:
    found = judge_transactions("topic totals", TopicShape("totals", 6, copies, {}), brokers)
    assert [it.level for it in found] == [Severity.WARN] * warns
    assert all("KAFKA-20734" in it.text and it.remedy.startswith("Reassign") for it in found)
