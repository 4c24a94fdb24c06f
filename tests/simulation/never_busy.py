"""A broker as it must not be: an id is free before its last transaction has its marker."""

from __future__ import annotations

from coop_consumer.logs.memory_log import Fate, MemoryPartition, Phase, StoredRecord, WriterState


class NeverBusy(MemoryPartition):
    """A broker that begins an id's next transaction before the last one's marker is written."""

    def is_busy(self, writer: str) -> bool:  # noqa: ARG002 - as the one that is busy
        return False

    def has_marker(self, writer: str) -> bool:
        return self.state_of(writer).phase is Phase.COMMITTING and "/" in writer

    def is_committing(self, writer: str) -> bool:
        return self.state_of(writer).phase is Phase.COMMITTING

    def decide(self, writer: str, epoch: int, *, is_commit: bool) -> bool:
        """The transaction goes on under a name of its own, until its marker is written."""
        known = self.state_of(writer)
        if known.epoch != epoch:
            return False
        if known.phase is Phase.OPEN:
            own = f"{writer}/{len(self.stored)}"
            fate = Fate.UNDECIDED if is_commit else Fate.ABORTED
            self.stored = [
                it._replace(writer=own, fate=fate)
                if it.writer == writer and it.fate is Fate.UNDECIDED
                else it
                for it in self.stored
            ]
            self.writers[writer] = WriterState(epoch)
            if is_commit:
                self.writers[own] = WriterState(0, Phase.COMMITTING)
        return True

    def write_marker(self, writer: str) -> None:
        self.stored = [
            it._replace(fate=Fate.VISIBLE) if it.writer == writer else it for it in self.stored
        ] + [StoredRecord(None, Fate.MARKER, writer)]
        self.writers[writer] = WriterState(0)
