"""How large a record of the progress log may be: a larger one is split into parts. Pure.

In: the topic's limit, appends that the log refuses for their size. Out: smaller parts from then on,
and a line for the operator.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coop_consumer.core.actions import Level
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from coop_consumer.core.state import MemberState

RECORD_MAX_BYTES = 900_000
"""Of a value in the log. Below the 1 MB that brokers take by default, with room for its key."""
RECORD_MIN_BYTES = 4_096
"""No record is split into smaller parts."""
_REPORT_AGAIN_MS = 60_000


@dataclass(slots=True)
class RecordSize:
    """What the log takes of one record. Set by the shell, then by `split_smaller`.

    Attributes:
        max_bytes: Of its value.
        smaller_since: The newest token when that was made smaller; appends up to there are larger.
        report_again_ms: No line before, if parts cannot be smaller.
    """

    max_bytes: int = field(default_factory=lambda: RECORD_MAX_BYTES)
    smaller_since: int = 0
    report_again_ms: int = 0


def split_smaller(state: MemberState, token: int) -> None:
    """The log has refused an append for its size: split records into smaller parts.

    Args:
        state: The member.
        token: Of the append. Ignored if the append was built before the last call.
    """
    size = state.record_size
    if token <= size.smaller_since:
        return
    size.smaller_since = state.newest_token
    is_smallest = size.max_bytes <= RECORD_MIN_BYTES
    size.max_bytes = max(RECORD_MIN_BYTES, size.max_bytes // 2)
    if is_smallest:
        if state.now_ms < size.report_again_ms:
            return
        size.report_again_ms = state.now_ms + _REPORT_AGAIN_MS
    topic = state.config.progress_log
    now = (
        f"and takes not even {size.max_bytes} bytes, so no progress is committed"
        if is_smallest
        else f"so progress is written in parts of at most {size.max_bytes} bytes"
    )
    state.report(
        Level.ERROR if is_smallest else Level.WARNING,
        LogEvent.PROGRESS_LOG_RECORD_TOO_LARGE,
        f"progress topic {topic}: refuses a record for its size, {now}. Nothing is lost. Raise "
        f"its limit: kafka-configs.sh --bootstrap-server {state.config.bootstrap_servers} --alter "
        f"--entity-type topics --entity-name {topic} --add-config max.message.bytes=1048588",
        topic=topic,
    )
