"""Free ports on the loopback address.

Room: `coop_consumer.broker`. In: how many. Out: that many ports nobody listens on. The ports lie
below the range that systems use for outgoing connections. Otherwise a client that reconnects to a
killed broker could get the broker's own port, and talk to itself.
"""

from __future__ import annotations

import secrets
import socket

from coop_consumer.broker.settings import LOOPBACK
from coop_consumer.plain_text import counted

FIRST, LAST = 20_000, 32_767
"""Linux takes outgoing ports from 32768 up, other systems from 49152."""


def free_ports(count: int) -> list[int]:
    """`count` different ports that were free a moment ago; a caller retries if one was taken since.

    Raises:
        OSError: Hardly any port of the range is free.
    """
    chosen: set[int] = set()
    for _ in range(1_000):
        if len(chosen) == count:
            return sorted(chosen)
        port = FIRST + secrets.randbelow(LAST - FIRST + 1)
        if is_free(port):
            chosen.add(port)
    raise OSError(f"no {counted(count, 'free port')} between {FIRST} and {LAST} on {LOOPBACK}")


def is_free(port: int) -> bool:
    """Whether a server could listen on `port` now."""
    with socket.socket() as probe:
        # As Java does: connections of an earlier server that linger don't count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
