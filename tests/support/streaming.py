"""Streaming queries that a busy machine ends for no fault of theirs, and that go on then.

Spark waits 10 s, and not longer, for a process that a query has begun. Whoever runs one in
production begins it again: it goes on from its checkpoint. In: a query. Out: it has ended well.
"""

from __future__ import annotations

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.readwriter import DataStreamWriter


def was_too_slow(failure: StreamingQueryException) -> bool:
    """Whether this is the machine's fault."""
    return "failed to connect back" in str(failure)


def run_to_end(query: DataStreamWriter, within_s: float) -> None:
    """Run a query with a trigger that ends."""
    while True:
        try:
            assert query.start().awaitTermination(within_s)
        except StreamingQueryException as failure:
            if not was_too_slow(failure):
                raise
        else:
            return
