"""Whether something can be read, whatever number its file has.

In: a file, or its number. Out: yes or no. `select.select` takes numbers below 1,024 alone, and a
test process may have more files open: librdkafka's clients have a dozen each.
"""

from __future__ import annotations

import select
from typing import IO, Any


def is_readable(file: int | IO[Any], within_s: float) -> bool:
    """Wait until there is something to read, or its end, for so many seconds at most."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(1_000 * within_s))
