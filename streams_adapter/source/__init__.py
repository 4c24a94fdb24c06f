"""The data source `keyrange`: Kafka read by more tasks than it has partitions, each key in order.

options    what a user asked, read once
places     where a query begins and ends, asked of the brokers
pushdown   what filters say about where records can lie
scan       the tasks of a scan
share      one fetch of a partition for all tasks of an executor
rows       messages into Arrow batches
batch, stream   what Spark calls
progress   a stream's offsets, as its checkpoint holds them
"""

from streams_adapter.source.format import KeyRangeSource, register

__all__ = ["KeyRangeSource", "register"]
