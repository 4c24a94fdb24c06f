"""Connections of kafka-python that close their socket when they fail.

In: the client's connection manager. Out: the same manager. It closes the socket of a refused
connect, of a failed handshake, and of a cancelled connect. kafka-python leaves these sockets to the
garbage collector, which runs rarely. While brokers are away, a member would reach its limit of open
files in minutes. The room touches what is not public API (hence the version pin).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

_SCHEME = "coop-direct"

LOOKING_UP: set[int] = set()
"""Idents of threads that wait for a name server. The system's look-up blocks, for 10 s and more."""


class _ClosingSocket(KafkaNetSocket):  # type: ignore[misc] # ships no types
    """A direct connection; kafka-python finds it by the scheme."""

    SCHEMES = (_SCHEME,)

    def dns_lookup(self, host: str, port: int, raise_error: bool = False) -> Any:
        """The addresses of a host; notes that this thread waits for them."""
        here = threading.get_ident()
        LOOKING_UP.add(here)
        try:
            return super().dns_lookup(host, port, raise_error)
        finally:
            LOOKING_UP.discard(here)

    async def connect(
        self,
        net: Any,
        addrinfo: tuple[Any, ...],
        socket_options: Sequence[tuple[Any, ...]] = (),
        timeout_at: float | None = None,
    ) -> Any:
        """A connected socket; it is closed if the connect fails."""
        family, kind, protocol, _, address = addrinfo
        sock = self.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            for option in socket_options:
                sock.setsockopt(*option)
            return await self.sock_connect(net, sock, address, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


def close_what_fails(manager: Any) -> None:
    """Make a connection manager of kafka-python close the sockets of connections that fail."""
    manager._build_transport = partial(_build_transport, manager)


async def _build_transport(manager: Any, node: Any, timeout_at: float | None = None) -> Any:
    """As the manager's own method, but a failure closes the socket."""
    config = manager.config
    sock = await create_connection(
        manager._net,
        node.host,
        node.port,
        config["socket_options"],
        proxy_url=f"{_SCHEME}://",
        timeout_at=timeout_at,
    )
    try:
        if manager.ssl_enabled:
            tls = {name: value for name, value in config.items() if name.startswith("ssl_")}
            transport = KafkaSSLTransport(manager._net, sock, host=node.host, **tls)
        else:
            transport = KafkaTCPTransport(manager._net, sock, host=node.host)
        sock = transport._sock
        await transport.handshake()
    except Exception as error:
        sock.close()
        raise kafka_errors.KafkaConnectionError(f"Handshake failed: {error}") from error
    except BaseException:
        sock.close()
        raise
    return transport
