"""Findings of a check-up, and the judgements that need no broker. Pure.

In: the broker's answers (settings, operations allowed, counts). Out: findings: one line each, with
what to do about it, and the exit code of a command that meets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from coop_consumer.errors import CoopConsumerError, ExitCode, grant_command
from coop_consumer.plain_text import counted

_HEADERS_BYTES = 4_096
"""Room for what a dead letter says of its record: where it was, and how it failed."""
_REASSIGN = "Reassign it to more brokers (kafka-reassign-partitions.sh)"


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a check-up.

    Attributes:
        check: What was looked at.
        level: How bad it is.
        text: What was found.
        remedy: What to do, or "".
        exit_code: The exit code of a command whose worst finding this is.
    """

    check: str
    level: Severity
    text: str
    remedy: str = ""
    exit_code: ExitCode = ExitCode.OK


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Severity.OK, text)


def warn(check: str, text: str, remedy: str) -> Finding:
    """It works, and somebody should look at it."""
    return Finding(check, Severity.WARN, text, remedy)


def fail(check: str, text: str, remedy: str, exit_code: ExitCode = ExitCode.CONFLICT) -> Finding:
    """It does not work like this."""
    return Finding(check, Severity.FAIL, text, remedy, exit_code)


def failed_by(check: str, error: CoopConsumerError) -> Finding:
    """An error met on the way, whose text says what to do."""
    return fail(check, str(error).removeprefix(f"{check}: "), "", error.exit_code)


def worst_exit_code(findings: Iterable[Finding]) -> ExitCode:
    """The exit code of a check-up: of its first failure, as later ones may follow from it."""
    return next((f.exit_code for f in findings if f.level is Severity.FAIL), ExitCode.OK)


@dataclass(frozen=True, slots=True)
class TopicShape:
    """A topic as an operator made it.

    Attributes:
        name: Its name.
        partitions: How many it has.
        replication: Copies of its least copied partition.
        settings: Its settings by name; empty if they may not be seen.
    """

    name: str
    partitions: int
    replication: int
    settings: Mapping[str, str]

    @property
    def min_isr(self) -> int:
        """How many copies must have a record before it is acknowledged."""
        return int(self.settings.get("min.insync.replicas", "1"))


def judge_progress_topic(
    topic: TopicShape,
    like: TopicShape | None,
    wanted: Mapping[str, str],
    brokers: int,
    bootstrap: str,
) -> list[Finding]:
    """Whether a progress topic can hold progress as safely as Kafka holds committed offsets.

    Args:
        topic: The progress topic.
        like: Kafka's own offsets topic; None if it does not exist yet.
        wanted: The settings that we would have set.
        brokers: How many brokers the cluster has.
        bootstrap: A broker's address, for commands.
    """
    name = f"progress topic {topic.name}"
    if not topic.settings:
        remedy = f"Grant describe_configs on topic {topic.name}, or ask its operator"
        return [warn(name, "this user may not see its settings, so they were not checked", remedy)]
    found = _policy(name, topic, bootstrap) + _copies(name, topic, like, brokers, bootstrap)
    found += judge_writing(name, topic, int(wanted["max.message.bytes"]), bootstrap)
    for setting in ("delete.retention.ms", "min.compaction.lag.ms"):
        has, least = int(topic.settings.get(setting, "0")), int(wanted[setting])
        if has < least:
            text = f"{setting}={has} is below {least}: a slow reader may miss a record"
            found.append(warn(name, text, alter_command(bootstrap, topic.name, setting, least)))
    shape = f"{counted(topic.partitions, 'partition')}, kept {times(topic.replication)}"
    return found or [ok(name, f"compacted, {shape}, min.insync.replicas={topic.min_isr}")]


def differing_partitions(topic: TopicShape, named: int | None) -> list[Finding]:
    """Whether a progress topic has another number of partitions than a setting names."""
    if not named or topic.partitions == named:
        return []
    text = f"has {counted(topic.partitions, 'partition')}, and progress.topic.partitions={named}"
    remedy = (
        f"Set progress.topic.partitions={topic.partitions}, or leave it out. The topic keeps its "
        "number: where a group's progress lies depends on it"
    )
    return [warn(f"progress topic {topic.name}", text, remedy)]


def _policy(name: str, topic: TopicShape, bootstrap: str) -> list[Finding]:
    policy = topic.settings.get("cleanup.policy", "")
    alter = alter_command(bootstrap, topic.name, "cleanup.policy", "compact")
    if "compact" not in policy:
        return [fail(name, f"cleanup.policy={policy}: progress would be deleted by age", alter)]
    if "delete" in policy:
        return [warn(name, f"cleanup.policy={policy}: progress of idle groups is deleted", alter)]
    return []


def _copies(
    name: str, topic: TopicShape, like: TopicShape | None, brokers: int, bootstrap: str
) -> list[Finding]:
    found = []
    due = min(like.replication, brokers) if like else min(3, brokers)
    if topic.replication < due:
        text = f"kept {times(topic.replication)}, while committed offsets are kept {times(due)}"
        found.append(warn(name, text, _REASSIGN))
    if topic.replication > 1 and topic.min_isr >= topic.replication:
        text = f"min.insync.replicas={topic.min_isr} of {topic.replication}: no broker may fail"
        alter = alter_command(bootstrap, topic.name, "min.insync.replicas", topic.replication - 1)
        found.append(warn(name, text, alter))
    if like is not None and topic.min_isr < like.min_isr:
        text = f"min.insync.replicas={topic.min_isr} is below the {like.min_isr} of {like.name}"
        alter = alter_command(bootstrap, topic.name, "min.insync.replicas", like.min_isr)
        found.append(warn(name, text, alter))
    return found


def judge_transactions(check: str, topic: TopicShape, brokers: int) -> list[Finding]:
    """Whether a topic that transactions write to survives one broker (KAFKA-20734).

    Args:
        check: The name of the check.
        topic: The topic.
        brokers: How many there are; of a single one `doctor` warns anyway.
    """
    if not 0 < topic.replication < min(2, brokers):
        return []
    text = (
        "kept once: if its broker fails within milliseconds of a commit, Kafka may take back what "
        "was committed (KAFKA-20734)"
    )
    return [warn(check, text, _REASSIGN)]


def judge_writing(check: str, topic: TopicShape, least_bytes: int, bootstrap: str) -> list[Finding]:
    """Whether one of our topics takes what members write to it.

    Args:
        check: The name of the check.
        topic: The topic.
        least_bytes: The `max.message.bytes` that we would have set.
        bootstrap: A broker's address, for commands.
    """
    found = []
    name = topic.name
    if (limit := int(topic.settings.get("max.message.bytes", least_bytes))) < least_bytes:
        text = f"max.message.bytes={limit} is below {least_bytes}: records are split, or refused"
        alter = alter_command(bootstrap, name, "max.message.bytes", least_bytes)
        found.append(warn(check, text, alter))
    if topic.settings.get("message.timestamp.type", "LogAppendTime") != "LogAppendTime":
        text = (
            "message.timestamp.type=CreateTime: if a member's clock is an hour ahead, the brokers "
            "refuse its records"
        )
        alter = alter_command(bootstrap, name, "message.timestamp.type", "LogAppendTime")
        found.append(warn(check, text, alter))
    return found


def judge_dead_letters(
    topic: TopicShape, letters: TopicShape | None, name: str, bootstrap: str
) -> list[Finding]:
    """Whether a dead-letter topic takes every record of a topic.

    Args:
        topic: The consumed topic.
        letters: Its dead-letter topic; None if it does not exist.
        name: The name of the dead-letter topic.
        bootstrap: A broker's address, for commands.
    """
    check = f"dead-letter topic {name}"
    if letters is None:
        text = f"does not exist: records of {topic.name} that fail for good wait until it does"
        return [warn(check, text, create_command(bootstrap, letters_shape(topic, name)))]
    found = []
    due = int(_with_room(topic.settings).get("max.message.bytes", 0))
    if (limit := int(letters.settings.get("max.message.bytes", due))) < due:
        text = (
            f"max.message.bytes={limit}, while {topic.name} takes records of "
            f"{due - _HEADERS_BYTES} bytes, and a dead letter has {_HEADERS_BYTES} more for its "
            "headers: a refused one holds its key back"
        )
        found.append(warn(check, text, alter_command(bootstrap, name, "max.message.bytes", due)))
    if "compact" in (policy := letters.settings.get("cleanup.policy", "")):
        text = (
            f"cleanup.policy={policy}: one letter of a key is kept, and one without a key is "
            "refused, which holds others back"
        )
        found.append(warn(check, text, alter_command(bootstrap, name, "cleanup.policy", "delete")))
    if 0 < letters.replication < topic.replication:
        text = f"kept {times(letters.replication)}, and {topic.name} {times(topic.replication)}"
        found.append(warn(check, text, _REASSIGN))
    return found or [ok(check, f"takes every record of {topic.name}")]


def letters_shape(topic: TopicShape, name: str) -> TopicShape:
    """What a dead-letter topic of this name must be like, to take every record of a topic."""
    settings = {k: v for k, v in topic.settings.items() if k == "max.message.bytes"}
    return TopicShape(name, topic.partitions, topic.replication, _with_room(settings))


def judge_changelog(log: TopicShape, wanted: TopicShape, bootstrap: str) -> list[Finding]:
    """Whether a changelog can hold the keyed state of its topic.

    Args:
        log: The changelog.
        wanted: What we would have made.
        bootstrap: A broker's address, for commands.
    """
    check, found = f"changelog {log.name}", []
    policy = log.settings.get("cleanup.policy", "compact")
    if policy != "compact":
        text = f"cleanup.policy={policy}: state that rests would be deleted"
        alter = alter_command(bootstrap, log.name, "cleanup.policy", "compact")
        found.append(fail(check, text, alter))
    if log.partitions < wanted.partitions:
        text = f"has {counted(log.partitions, 'partition')}, and its topic {wanted.partitions}"
        more = (
            f"kafka-topics.sh --bootstrap-server {bootstrap} --alter --topic {log.name} "
            f"--partitions {wanted.partitions}"
        )
        remedy = f"{more} (members do it, too, if their user may)"
        found.append(fail(check, text, remedy))
    if 0 < log.replication < wanted.replication:
        text = f"kept {times(log.replication)}, and its topic {times(wanted.replication)}"
        found.append(warn(check, text, _REASSIGN))
    found += judge_writing(check, log, int(wanted.settings["max.message.bytes"]), bootstrap)
    return found or [
        ok(check, f"{counted(log.partitions, 'partition')}, kept {times(log.replication)}")
    ]


def _with_room(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings, with room for the headers of a dead letter."""
    if "max.message.bytes" not in settings:
        return {}
    return {"max.message.bytes": str(int(settings["max.message.bytes"]) + _HEADERS_BYTES)}


def judge_rights(
    resource: str, has: Iterable[str], needed: Iterable[str], user: str, bootstrap: str
) -> Finding:
    """Whether the operations allowed on a resource suffice.

    Args:
        resource: Its kind and name.
        has: What the user may do on it.
        needed: What the user has to do on it.
        user: Its name; "" if nobody logs in.
        bootstrap: A broker's address, for the command.

    >>> judge_rights("topic orders", ["READ", "DESCRIBE"], ["READ"], "ann", "b:9092").level
    <Severity.OK: 'ok'>
    """
    missing = sorted(set(needed) - set(has))
    if not missing:
        return ok(resource, f"allowed: {', '.join(sorted(needed)).lower()}")
    words = ", ".join(missing).lower()
    remedy = grant_command(resource, missing, f"User:{user or 'NAME'}", bootstrap)
    return fail(resource, f"not allowed: {words}", remedy, ExitCode.UNAUTHORIZED)


def transactions_refused(text: str, bootstrap: str, user: str, prefix: str) -> Finding:
    """The right to write the transactional ids of a group is missing.

    Args:
        text: What the broker said.
        bootstrap: A broker's address.
        user: Who lacks the right; "" if nobody logs in.
        prefix: What all ids of the group begin with.
    """
    ids, principal = f"transactional.id {prefix}", f"User:{user or 'NAME'}"
    command = grant_command(ids, ["write"], principal, bootstrap, is_prefix=True)
    return fail("transactions", text, command, ExitCode.UNAUTHORIZED)


def alter_command(bootstrap: str, topic: str, setting: str, value: object) -> str:
    """The command by which an operator changes a setting of a topic."""
    return (
        f"kafka-configs.sh --bootstrap-server {bootstrap} --alter --entity-type topics "
        f"--entity-name {topic} --add-config {setting}={value}"
    )


def create_command(bootstrap: str, topic: TopicShape) -> str:
    """The command by which an operator creates a topic."""
    settings = " ".join(f"--config {name}={value}" for name, value in topic.settings.items())
    return (
        f"kafka-topics.sh --bootstrap-server {bootstrap} --create --topic {topic.name} "
        f"--partitions {topic.partitions} --replication-factor {topic.replication} {settings}"
    )


def delete_command(bootstrap: str, topic: str) -> str:
    """The command by which an operator deletes a topic."""
    return f"kafka-topics.sh --bootstrap-server {bootstrap} --delete --topic {topic}"


def times(copies: int) -> str:
    """How often something is kept, in words."""
    return "once" if copies == 1 else f"{copies} times"
