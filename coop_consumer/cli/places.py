"""Names of places on the command line: `orders-3`, a topic, an address to listen at."""

from __future__ import annotations

import re

import click

from assignors import TopicPartition
from coop_consumer.config import sendable
from coop_consumer.config.patterns import ADDRESS, KAFKA_NAME
from coop_consumer.config.setting import shown

_DIGITS_MAX = 10
"""Those of the largest number that a partition may have."""


class BracketedArgument(click.Argument):
    """An argument whose place in the usage has a bracket that is its neighbour's, too."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Its name in a message, without the bracket."""
        return super().get_error_hint(ctx).replace("[", "").replace("]", "")


class TopicPartitionType(click.ParamType[TopicPartition]):
    """`orders-3`: a topic and a partition."""

    name = "topic-partition"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> TopicPartition:
        """Read the text; the last dash parts topic and number, as topics may hold dashes."""
        topic, dash, number = str(value).rpartition("-")
        is_number = number.isascii() and number.isdecimal() and len(number) <= _DIGITS_MAX
        if not (dash and sendable(topic) and is_number):
            self.fail(
                f"{shown(value)} names no partition; write topic-number, as in orders-3", param, ctx
            )
        return TopicPartition(topic, int(number))


class WriterType(click.ParamType[str]):
    """The name of a writer: of its group, and in its transactional ids."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same text, if people can type it into Kafka's tools."""
        if not sendable(str(value)):
            self.fail(f"{shown(value)}: a name has {KAFKA_NAME.words}", param, ctx)
        return str(value)


class TopicType(click.ParamType[str]):
    """A topic's name."""

    name = "topic"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same text, if a topic may have it for a name."""
        if not sendable(str(value)):
            told = f"{shown(value)} is no topic's name; it has {KAFKA_NAME.words}, as in orders"
            self.fail(told, param, ctx)
        return str(value)


class ListenAddressType(click.ParamType[str]):
    """`127.0.0.1:9466`: where a server listens."""

    name = "address"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same text, if it has a host and a port."""
        if not re.fullmatch(ADDRESS.regex, str(value)):
            self.fail(f"{shown(value)} is no address; write {ADDRESS.words}", param, ctx)
        return str(value)


TOPIC_PARTITION = TopicPartitionType()
TOPIC = TopicType()
WRITER = WriterType()
LISTEN_ADDRESS = ListenAddressType()
