"""The names of the demo's topics, and what each client of the demo needs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlightTopics:
    """The topics of flights and of legs; both have the same number of partitions.

    Attributes:
        flights: The consumed topic.
        legs: The results, one a flight; compacted, so that the last leg of each aircraft stays.
    """

    flights: str
    legs: str


def clients_of(bootstrap: str) -> dict[str, str]:
    """Settings of every client. A failure is raised; librdkafka need not print it as well."""
    return {"bootstrap.servers": bootstrap, "log_level": "2"}


def reader_of(clients: Mapping[str, str]) -> dict[str, str | int | bool]:
    """Settings of a Consumer that belongs to no group, from those of every client."""
    return {
        **clients,
        "group.id": "unused",  # the client insists on one; nothing is committed
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.queue.backoff.ms": 1,
    }
