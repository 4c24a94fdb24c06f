"""Dead letters: what of a record goes to its dead-letter topic. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.core.effects import Output
from coop_consumer.core.outputs import FRAME_BYTES

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from coop_consumer.core.record import Record


def letter_of(record: Record, error: str, attempts: int, config: Config) -> Output:
    """The original record, unchanged by its handler, with headers that say why it failed."""
    letter = record.contents()
    headers: list[tuple[str, str | bytes | None]] = [
        *letter.headers,
        ("coop.error", error.encode()),
        ("coop.attempts", str(attempts).encode()),
        ("coop.topic", letter.tp.topic.encode()),
        ("coop.partition", str(letter.tp.partition).encode()),
        ("coop.offset", str(letter.offset).encode()),
        ("coop.group", config.group_id.encode()),
    ]
    size = FRAME_BYTES + len(letter.key or b"") + len(letter.value or b"")
    topic = config.dead_letter_topic_for(letter.tp.topic)
    return Output(topic, letter.key, letter.value, headers, size=size)
