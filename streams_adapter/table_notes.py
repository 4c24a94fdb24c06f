"""What Spark hands to a format beside the user's options, where the user made a table of it. Pure.

In: Spark's options. Out: those of the user; or an error where Spark keeps them to itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from coop_consumer.errors import ConfigError

_OF_A_TABLE = ("owner", "comment", "external", "is_managed_location", "collation")
_TABLE, _ITS_OPTION = "provider", "option."
"""Spark's own notes on a table come along with the options of `CREATE TABLE … USING keyrange`."""


def without_notes(options: Mapping[str, str]) -> dict[str, str]:
    """Without what Spark notes of a table.

    Raises:
        ConfigError: There are no options at all: Spark does not hand on those of a table.
    """
    if not options:
        raise ConfigError(
            "USING keyrange",
            "comes without any option: Spark 4.3 keeps those of CREATE TABLE to itself",
            "Use CREATE TEMPORARY VIEW … USING keyrange OPTIONS (…), or name them in the query: "
            "SELECT … FROM t WITH (`kafka.bootstrap.servers` = 'b:9092', subscribe = 'orders')",
        )
    names = {name.lower() for name in options}
    if _TABLE not in names:
        return dict(options)
    return {
        name: value
        for name, value in options.items()
        if name.lower() not in (_TABLE, *_OF_A_TABLE) and not name.lower().startswith(_ITS_OPTION)
    }
