"""Dead letters: what of a record goes to its dead-letter topic. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coop_consumer.core.effects import Output
from coop_consumer.core.outputs import FRAME_BYTES

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from coop_consumer.core.record import Record


def letter_of(
    record: Record,
    error: str,
    attempts: int,
    config: Config,
    trace: Sequence[tuple[str, bytes]] = (),
) -> Output:
    """The original record, unchanged by its handler, with headers that say why it failed.

    Args:
        record: The record.
        error: Why it failed last.
        attempts: How often it was tried.
        config: The member's.
        trace: Headers that take the place of the record's own of the same names: whoever reads the
            letter goes on in the trace of the handler, not beside it.
    """
    letter, replaced = record.contents(), {name for name, _ in trace}
    headers: list[tuple[str, str | bytes | None]] = [
        *(it for it in letter.headers if it[0] not in replaced),
        *trace,
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
