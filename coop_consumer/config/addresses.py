"""Addresses to listen at, as `ops.address` has them. Pure."""

from __future__ import annotations

import ipaddress


def host_of(address: str) -> str:
    """The host of host:port, without brackets.

    >>> host_of("127.0.0.1:9464"), host_of("[::1]:9464")
    ('127.0.0.1', '::1')
    """
    return address.rpartition(":")[0].strip("[]")


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
