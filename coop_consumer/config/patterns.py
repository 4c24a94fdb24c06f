"""The shapes of texts in settings, as patterns and in words. Pure."""

from __future__ import annotations

import re

from coop_consumer.config.setting import Pattern

NOT_EMPTY = Pattern(r"\S(.*\S)?", "text that is not empty")
_PORT = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_SERVER = rf"(\w+://)?(\[[0-9A-Fa-f:.%\w]+\]|[^\s,:/\[\]]+)(:{_PORT})?"
SERVERS = Pattern(rf"\s*{_SERVER}(\s*,\s*{_SERVER})*\s*", "host:port, or several between commas")
ADDRESS = Pattern(
    rf"(\[[0-9A-Fa-f:.]+\]|[^\s,:/\[\]]+):(0|{_PORT})", "host:port, as in 127.0.0.1:9464"
)
_HOST = r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
HOST_NAMES = Pattern(
    rf"{_HOST}(\s*,\s*{_HOST})*",
    "names of hosts between commas, without ports, as in ops.example.com",
)
KAFKA_NAME = Pattern(
    r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", "1 to 249 of the characters a-z A-Z 0-9 . _ -"
)
_NAME = r"(?!\.{1,2}\s*(,|$))[A-Za-z0-9._-]{1,249}"
TOPIC_NAMES = Pattern(
    rf"{_NAME}(\s*,\s*{_NAME})*",
    "topic names between commas, each 1 to 249 of the characters a-z A-Z 0-9 . _ -",
)
_CHOSEN = rf"({_NAME}|\^[^,]*[^,\s])"
CHOSEN_TOPICS = Pattern(
    rf"{_CHOSEN}(\s*,\s*{_CHOSEN})*",
    "topic names between commas, each 1 to 249 of the characters a-z A-Z 0-9 . _ -, or a pattern "
    "without a comma that begins with ^",
)
TOPIC_TEMPLATE = Pattern(
    r"(?!\.{1,2}$)(?!\{topic\}$)([A-Za-z0-9._-]|\{topic\}){1,249}",
    "a topic name, in which {topic} stands for the record's topic",
)
CHANGELOG_TEMPLATE = Pattern(
    r"([A-Za-z0-9._-]|\{group\})*\{topic\}([A-Za-z0-9._-]|\{group\})+"
    r"|([A-Za-z0-9._-]|\{group\})+\{topic\}",
    "a topic name with {topic} in it, and more",
)

CALLABLE = Pattern(r"[^\W\d][\w.]*:[^\W\d][\w.]*", "module:callable")


def sendable(topic: str) -> bool:
    """Whether a topic may have this name."""
    return re.fullmatch(KAFKA_NAME.regex, topic) is not None
