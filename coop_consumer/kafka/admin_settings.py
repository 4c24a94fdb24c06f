"""What kafka-python's admin client takes of a membership's settings, and what it has to forget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.cluster import CoordinatorType

from coop_consumer.kafka.membership_login import logged_in_membership

_BOOTSTRAP_MS = 10_000
"""By itself the client tries for 30 s, and whoever asks has been told of 10 s."""


def for_admin(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those settings that the admin client knows, as it refuses others; and how long it tries.

    Raises:
        ConfigError, TokenUnavailableError: There is no token to log in with.
    """
    known = {name: it for name, it in settings.items() if name in KafkaAdminClient.DEFAULT_CONFIG}
    return logged_in_membership({**known, "bootstrap_timeout_ms": _BOOTSTRAP_MS})


def forget_coordinator(client: KafkaAdminClient, group: str) -> None:
    """Look a group's coordinator up anew; the client keeps it for ever, also one that has moved."""
    client._manager.cluster._coordinators.pop((CoordinatorType.GROUP, group), None)
