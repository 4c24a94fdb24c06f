"""Where a member's own page is, as a link of its group's page. Pure.

In: the address at which a member says that it listens, and its host; both may be of strangers. Out:
`http://HOST:PORT/` and nothing else, made of an address in digits or a plain name, and a port.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class OwnPage:
    """Where a member's own page is.

    Attributes:
        place: host:port.
        href: The link; "": only the member's host reaches it, and that is another one.
    """

    place: str
    href: str


def own_page(address: str, host: str, here: str) -> OwnPage | None:
    """Where a member's own page is; None: nobody says it.

    Args:
        address: Where the member listens: an address in digits, and a port.
        host: The name of its host.
        here: The name of this host. Who reaches it at a loopback address reaches its members so.

    >>> own_page("0.0.0.0:9464", "host-7", "ops").href
    'http://host-7:9464/'
    >>> own_page("127.0.0.1:9464", "host-7", "ops")
    OwnPage(place='127.0.0.1:9464', href='')
    """
    digits, _, port = address.rpartition(":")
    try:
        ip = ipaddress.ip_address(digits.strip("[]"))
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    # A zone (fe80::1%eth0) is any text, and means something only on the member's host.
    if "%" in digits or not _PORT.fullmatch(port) or int(port) > _PORT_MAX:
        return None
    name = f"[{ip}]" if ip.version == 6 else str(ip)
    if ip.is_unspecified:  # it listens at all addresses of its host
        if not _NAME.fullmatch(host):
            return None
        name = host
    place = f"{name}:{port}"
    return OwnPage(place, "" if ip.is_loopback and host != here else f"http://{place}/")
