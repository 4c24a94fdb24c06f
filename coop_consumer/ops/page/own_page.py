"""Where a member's own page is: a link of its group's page, or a command that brings it. Pure.

In: the address at which a member says that it listens, and its host; both may be of strangers; a
record that it runs. Out: `http://HOST:PORT/`, made of an address in digits or a plain name, and a
port, and below it the place of the record; nothing else. A command is made of the same pieces, so a
shell takes them for words.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from urllib.parse import quote

from assignors import TopicPartition

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class OwnPage:
    """Where a member's own page is.

    Attributes:
        place: host:port.
        href: The link; "": it would not lead there.
        command: Brings the page to `local`; "": the link leads there, or no command is known.
        local: Where it is then: `http://localhost:PORT/`.
    """

    place: str
    href: str
    command: str
    local: str

    def of_stack(self, tp: TopicPartition, offset: int) -> OwnPage:
        """Where it shows the stack of a record that runs there.

        >>> page = OwnPage("a:9464", "http://a:9464/", "", "http://localhost:9464/")
        >>> page.of_stack(TopicPartition("orders", 3), 43).href
        'http://a:9464/running/orders/3/43'
        """
        path = stack_path(tp, offset)
        href = self.href and self.href.rstrip("/") + path
        return replace(self, href=href, local=self.local.rstrip("/") + path)


def stack_path(tp: TopicPartition, offset: int) -> str:
    """The path of the stack of a record's handler, at a member's own page."""
    return f"/running/{quote(tp.topic, safe='')}/{tp.partition}/{offset}"


@dataclass(frozen=True, slots=True)
class PageHost:
    """Where the page of the group is served.

    Attributes:
        name: The name of this host. Who reaches it at a loopback address reaches its members so.
        is_pod: Whether it is a pod of Kubernetes. Its members then are pods, too, whose names no
            browser outside the cluster can look up.
    """

    name: str = ""
    is_pod: bool = False


UNKNOWN_HOST = PageHost()


def own_page(address: str, host: str, here: PageHost) -> OwnPage | None:
    """Where a member's own page is; None: nobody says it.

    Args:
        address: Where the member listens: an address in digits, and a port.
        host: The name of its host.
        here: Where this page is served.

    >>> own_page("0.0.0.0:9464", "host-7", PageHost("ops")).href
    'http://host-7:9464/'
    >>> own_page("127.0.0.1:9464", "host-7", PageHost("ops")).command
    'ssh -L 9464:127.0.0.1:9464 host-7'
    >>> own_page("0.0.0.0:9464", "billing-0", PageHost("page-1", is_pod=True)).command
    'kubectl port-forward pod/billing-0 9464'
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
    has_name = _NAME.fullmatch(host) is not None
    if ip.is_unspecified:  # it listens at all addresses of its host
        if not has_name:
            return None
        name = host
    place, is_here, command = f"{name}:{port}", host == here.name, ""
    if has_name and here.is_pod:
        command = f"kubectl port-forward pod/{host} {port}"
    elif has_name and ip.is_loopback and not is_here:
        command = f"ssh -L {port}:{place} {host}"
    leads_there = not command and (is_here or not ip.is_loopback)
    href = f"http://{place}/" if leads_there else ""
    return OwnPage(place, href, command, f"http://localhost:{port}/")
