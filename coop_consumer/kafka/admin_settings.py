"""What kafka-python's admin client takes of a membership's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.admin import KafkaAdminClient


def for_admin(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those settings that the admin client knows; it refuses others."""
    return {name: it for name, it in settings.items() if name in KafkaAdminClient.DEFAULT_CONFIG}
