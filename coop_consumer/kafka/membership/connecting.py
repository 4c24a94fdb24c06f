"""Connections of kafka-python that leave no file open where they fail.

In: the client's connection manager. Out: the same, but it closes the socket of a connect that was
refused or cancelled, and of a handshake that failed. kafka-python leaves these sockets to the
garbage collector, which comes rarely. While brokers are away, a member would reach its limit of
open files in minutes. Touches what is not public API there (hence the version pin).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

_SCHEME = "coop-direct"


class _ClosingSocket(KafkaNetSocket):  # type: ignore[misc] # ships no types
    """A direct connection; kafka-python finds it by the scheme."""

    SCHEMES = (_SCHEME,)

    async def connect(
        self,
        net: Any,
        addrinfo: tuple[Any, ...],
        socket_options: Sequence[tuple[Any, ...]] = (),
        timeout_at: float | None = None,
    ) -> Any:
        """A connected socket; whatever else comes of it, it is closed."""
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
    """Have a connection manager of kafka-python close the sockets of connections that fail."""
    manager._build_transport = partial(_build_transport, manager)


async def _build_transport(manager: Any, node: Any, timeout_at: float | None = None) -> Any:
    """As the manager's own, but for what fails."""
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
