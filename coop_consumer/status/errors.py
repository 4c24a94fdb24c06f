"""What keeps a group from being shown, reset, or decided about. Pure values."""

from __future__ import annotations

from dataclasses import dataclass

from coop_consumer.errors import ExitCode, SetupError


@dataclass(eq=False)
class GroupMissingError(SetupError):
    """Nobody knows a group of this name: it has no members, no committed offset, no progress."""

    group: str

    exit_code = ExitCode.MISSING

    def __str__(self) -> str:
        return (
            f"group {self.group}: does not exist (no member, no committed offset, no progress), or "
            "this user may not see it. Nothing was changed. Correct its name, name its topics with "
            "--topic if it has not begun yet, or grant the right to describe it."
        )


@dataclass(eq=False)
class PartitionMissingError(SetupError):
    """A partition was named that its topic does not have."""

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


@dataclass(eq=False)
class GroupInUseError(SetupError):
    """The group has members, which would go on from their own view of what is done."""

    group: str
    members: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.members[:10]) + (", ..." if len(self.members) > 10 else "")
        return (
            f"group {self.group}: has {len(self.members)} members ({shown}). Nothing was changed, "
            "because they would go on from what they know. Stop them all, wait until the group is "
            "empty (a killed one is counted until its session ends), and repeat."
        )


@dataclass(eq=False)
class NotParkedError(SetupError):
    """A decision was asked about a record that waits for none."""

    topic: str
    partition: int
    offset: int
    problem: str

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition} offset {self.offset}: {self.problem}. Nothing was "
            "decided. `coop-consumer status` lists the records that are parked."
        )
