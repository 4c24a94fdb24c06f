"""Names of places on the command line: `orders-3`, or partition numbers of chosen topics."""

from __future__ import annotations

import click

from assignors import TopicPartition
from coop_consumer.config import sendable
from coop_consumer.config.setting import shown


class TopicPartitionType(click.ParamType[TopicPartition]):
    """`orders-3`: a topic and a partition."""

    name = "topic-partition"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> TopicPartition:
        """Read the text; the last dash parts topic and number, as topics may hold dashes."""
        topic, dash, number = str(value).rpartition("-")
        if not (dash and sendable(topic) and number.isascii() and number.isdecimal()):
            self.fail(
                f"{shown(value)} names no partition; write topic-number, as in orders-3", param, ctx
            )
        return TopicPartition(topic, int(number))


class TopicType(click.ParamType[str]):
    """A topic's name."""

    name = "topic"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same text, if a topic may have it for a name."""
        if not sendable(str(value)):
            self.fail(f"{shown(value)} is no topic's name", param, ctx)
        return str(value)


TOPIC_PARTITION = TopicPartitionType()
TOPIC = TopicType()
