"""Names of places on the command line: `orders-3`, or partition numbers of chosen topics."""

from __future__ import annotations

import click

from assignors import TopicPartition


class TopicPartitionType(click.ParamType[TopicPartition]):
    """`orders-3`: a topic and a partition."""

    name = "topic-partition"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> TopicPartition:
        """Read the text; the last dash parts topic and number, as topics may hold dashes."""
        topic, dash, number = str(value).rpartition("-")
        if not (topic and dash and number.isdecimal()):
            self.fail(
                f"{value!r} names no partition; write topic-number, as in orders-3", param, ctx
            )
        return TopicPartition(topic, int(number))


TOPIC_PARTITION = TopicPartitionType()
