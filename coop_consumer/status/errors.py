"""Errors of the commands that look at groups and topics, and change them. Pure values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from assignors import TopicPartition
from coop_consumer.errors import ExitCode, RetriableError, SetupError
from coop_consumer.plain_text import counted


@dataclass(eq=False)
class GroupMissingError(SetupError):
    """The group does not exist: it has no members, no committed offset, no progress."""

    group: str

    exit_code = ExitCode.MISSING

    def __str__(self) -> str:
        return (
            f"group {self.group}: does not exist (no member, no committed offset, no progress), or "
            "this user may not see it. Correct its name, start a member of it, or grant the right "
            "to describe it."
        )


@dataclass(eq=False)
class PartitionMissingError(SetupError):
    """A topic does not have the named partition."""

    topic: str
    partition: int
    count: int

    exit_code = ExitCode.MISSING

    def __str__(self) -> str:
        there = "no other than 0" if self.count == 1 else f"0 to {self.count - 1}"
        return (
            f"{self.topic}-{self.partition}: does not exist, the topic has {there}. Nothing was "
            "changed. Correct the number."
        )

    @classmethod
    def check(cls, tp: TopicPartition, known: Collection[TopicPartition]) -> None:
        """Raise it if the partition is not one of these, all those of its topic."""
        if tp not in known:
            raise cls(tp.topic, tp.partition, sum(it.topic == tp.topic for it in known))


@dataclass(eq=False)
class TopicDiffersError(SetupError):
    """A topic that was to be made is there, and is not as it was to be.

    `problem` continues "topic <name>: exists, ".
    """

    topic: str
    problem: str

    def __str__(self) -> str:
        return (
            f"topic {self.topic}: exists, {self.problem}. Nothing was changed. Use it as it is, or "
            "choose another name."
        )


@dataclass(eq=False)
class TopicRefusedError(SetupError):
    """The brokers refuse to make a topic.

    `remedy` is a sentence without its full stop.
    """

    topic: str
    detail: str
    remedy: str

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        return f"topic {self.topic}: was not made ({self.detail}). {self.remedy}."


@dataclass(eq=False)
class GroupInUseError(SetupError):
    """The group has members, which would continue from their own view of what is done."""

    group: str
    members: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.members[:10]) + (", ..." if len(self.members) > 10 else "")
        return (
            f"group {self.group}: has {counted(len(self.members), 'member')} ({shown}). Nothing "
            "was changed, because they would continue from their own view. Stop them all, wait "
            "until the group is empty (a killed one is counted until its session ends), and repeat."
        )


@dataclass(eq=False)
class GroupJoinedError(GroupInUseError):
    """The group had no members when a job was planned for it, and has some now."""

    def __str__(self) -> str:
        shown = ", ".join(self.members[:10]) + (", ..." if len(self.members) > 10 else "")
        return (
            f"group {self.group}: has members ({shown}), and had none when this was planned. The "
            "finished part is in the progress log, for partitions whose history had begun. Members "
            "that begin from now on count it; members that have begun already may repeat it. "
            "Committed offsets were not moved. Stop the members, and commit again."
        )


@dataclass(eq=False)
class PlanOutdatedError(SetupError):
    """The history for which a job was planned is over: a reset, a rewind, a topic made again."""

    group: str
    partitions: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.partitions[:10]) + (", ..." if len(self.partitions) > 10 else "")
        return (
            f"group {self.group}: since this was planned, somebody has set other offsets for "
            f"{shown}, or made the topic again. The finished part there is not committed, because "
            "it belongs to the history before; that of other partitions is committed. Plan again."
        )


@dataclass(eq=False)
class LogUndecidedError(RetriableError):
    """A transaction in a group's progress log is undecided, so what is behind it is not known.

    `whose` names its writer. `remedy` says what ends it: sentences, then a command.
    """

    topic: str
    partition: int
    offset: int
    whose: str
    waited_ms: int
    remedy: str

    def __str__(self) -> str:
        return (
            f"progress log {self.topic}-{self.partition}: a transaction of {self.whose} is "
            f"undecided from offset {self.offset} on, and was waited for for "
            f"{self.waited_ms / 1_000:.0f} s. Nothing was changed. {self.remedy}"
        )


@dataclass(eq=False)
class NotParkedError(SetupError):
    """The record for which a decision was requested waits for none."""

    topic: str
    partition: int
    offset: int
    problem: str

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition} offset {self.offset}: {self.problem}. Nothing was "
            "decided. `coop-consumer status` lists the records that are parked."
        )
