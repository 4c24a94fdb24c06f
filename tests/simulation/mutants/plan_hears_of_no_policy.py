"""The plan does not hear of a topic's policy: what must not be shared is shared."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from coop_consumer.core.policies import Policies

BREAKS = ("policy",)
SEED = 35


def plant(patch: pytest.MonkeyPatch) -> None:
    """No topic refuses anything."""

    def topic_allows_sharing(policies: Policies, topics: Iterable[str]) -> dict[str, bool]:
        del policies, topics
        return {}

    patch.setattr(Policies, "topic_allows_sharing", topic_allows_sharing)
