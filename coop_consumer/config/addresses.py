"""Addresses to listen at, as `ops.address` has them. Pure."""

from __future__ import annotations

import ipaddress

_PORT_STEP, _PORT_MAX = 10, 65_535


def host_of(address: str) -> str:
    """The host of host:port, without brackets.

    >>> host_of("127.0.0.1:9464"), host_of("[::1]:9464")
    ('127.0.0.1', '::1')
    """
    return address.rpartition(":")[0].strip("[]")


def another_port(address: str, host: str = "") -> str:
    """An address beside host:port, for an example: other ports of one host lie closer together.

    Args:
        address: host:port.
        host: Where; "": at the same host.

    >>> another_port("127.0.0.1:9474"), another_port("[::1]:65535")
    ('127.0.0.1:9484', '[::1]:65525')
    >>> another_port("192.0.2.1:9464", "127.0.0.1")
    '127.0.0.1:9474'
    """
    same, _, text = address.rpartition(":")
    port = int(text)
    port += _PORT_STEP if port + _PORT_STEP <= _PORT_MAX else -_PORT_STEP
    return f"{host or same}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host, by its name or address.

    >>> [is_loopback(it) for it in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "ops.example.com")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
