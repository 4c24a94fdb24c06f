"""What can go wrong with a query on the source that no option could tell before."""

from __future__ import annotations

from dataclasses import dataclass

from coop_consumer.errors import ExitCode, FatalError


@dataclass(eq=False)
class OffsetsGoneError(FatalError):
    """Offsets that a query was to read are not in the log; `first` and `last` are both gone."""

    topic: str
    partition: int
    first: int
    last: int

    exit_code = ExitCode.STOPPED

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition} offsets [{self.first}-{self.last}]: not in the log "
            "(any more), by retention, a truncation, or because the topic was deleted. The query "
            "ends, what its checkpoint holds stays (failOnDataLoss=true). To go on without them, "
            "set failOnDataLoss=false; check the topic's retention against the time between reads."
        )


@dataclass(eq=False)
class TopicMadeAgainError(OffsetsGoneError):
    """A topic was deleted and made again since a stream has read it."""

    def __str__(self) -> str:
        return (
            f"topic {self.topic}: was deleted and made again since it was read (partition "
            f"{self.partition} up to offset {self.first}): what it held then is gone. The query "
            "ends, what its checkpoint holds stays (failOnDataLoss=true). To go on at the first "
            "record of the new topic, set failOnDataLoss=false; or begin with a new checkpoint."
        )


@dataclass(eq=False)
class TopicGoneError(FatalError):
    """A topic that a stream by pattern has read is not among its topics any more."""

    topic: str
    pattern: str

    exit_code = ExitCode.STOPPED

    def __str__(self) -> str:
        return (
            f"topic {self.topic}: the checkpoint says how far it was read, and it does not exist "
            f"(any more), or subscribePattern={self.pattern} does not match it. The query ends, "
            "what its checkpoint holds stays (failOnDataLoss=true). To go on without it, set "
            "failOnDataLoss=false: how far it was read is forgotten then."
        )


@dataclass(eq=False)
class CheckpointMismatchError(FatalError):
    """A checkpoint was made by a query that read something else."""

    problem: str
    remedy: str

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        return f"the checkpoint {self.problem}. Nothing was read. {self.remedy}."
