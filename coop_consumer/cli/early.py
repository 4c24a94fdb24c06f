"""Signals that come while the command is still being imported. Imports nothing of ours.

Process 1 of a container gets no signal from the kernel without a handler for it. So a SIGTERM that
comes too early would be lost, and the container would be killed after its patience.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_BY_SIGNAL = 128


def end_by_signals() -> None:
    """As process 1 of this command line, end by SIGTERM and SIGINT from now on, as any process."""
    is_command = os.path.basename(sys.argv[0]).startswith("coop-consumer")
    if os.getpid() == 1 and is_command:
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _end)


def _end(number: int, _: FrameType | None) -> None:
    os._exit(_BY_SIGNAL + number)
