"""A reader takes in records of transactions that may be aborted."""

from __future__ import annotations

from typing import Any

import pytest

from offsets import LogBatch
from tests.simulation.progress_log import ProgressReader, SimLog

BREAKS = ("I2", "I9", "I5", "stuck")
EXACTLY_ONCE = True
SEED = 11


def plant(patch: pytest.MonkeyPatch) -> None:
    """All that is there counts."""

    def read(log: SimLog, offset: int, max_records: int) -> LogBatch:
        undecided = [record for _, record in log.undecided.values()]
        records = sorted([*log._records, *undecided], key=lambda record: record.offset)
        found = [record for record in records if record.offset >= offset][:max_records]
        next_offset = found[-1].offset + 1 if len(found) == max_records else log.end_offset
        return LogBatch(found, next_offset, log.end_offset)

    def fetch(reader: ProgressReader, *args: Any) -> None:
        with pytest.MonkeyPatch.context() as only_now:
            only_now.setattr(SimLog, "read_stable", read)
            only_now.setattr(SimLog, "stable_end", property(lambda log: log.end_offset))
            real(reader, *args)

    real = ProgressReader._fetch
    patch.setattr(ProgressReader, "_fetch", fetch)
