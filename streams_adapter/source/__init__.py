"""The data source: Kafka read by more tasks than it has partitions, each key in order.

options        what a user asked, read once    places   begin and end of a query, by the brokers
batch, stream  what Spark calls                scan     the tasks of a scan
pushdown       where records can lie, by filters   rows     messages into Arrow batches
share          one fetch of a partition for all tasks of an executor
progress       a stream's offsets, as its checkpoint holds them
"""
