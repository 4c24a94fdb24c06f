"""Spark writes to Kafka: exactly once, by batch; and topics are cleaned of repeats.

In: dataframes with the columns of Spark's Kafka sink, or a topic whose records say where they came
from. Out: records in Kafka transactions, with a mark of what they are.
"""

from coop_consumer.patterns.cleaning import Cleaned
from streams_adapter.sinks.cleaning import cleaner, cleanup
from streams_adapter.sinks.driver import BatchWriter, SinkOptions, StreamWriter
from streams_adapter.sinks.writer import kafka_writer

__all__ = [
    "BatchWriter",
    "Cleaned",
    "SinkOptions",
    "StreamWriter",
    "cleaner",
    "cleanup",
    "kafka_writer",
]
