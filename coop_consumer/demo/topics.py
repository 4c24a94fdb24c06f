"""The names of the demo's topics, and what each client of the demo needs. Pure."""

from __future__ import annotations

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
