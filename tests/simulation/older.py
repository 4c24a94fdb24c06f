"""A member of a release that knows no loads: it measures and tells none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.core.loads import Loads

if TYPE_CHECKING:
    from assignors import ClaimLoad
    from coop_consumer.core.state import Partition
    from coop_consumer.core.tenure import Tenure


class NoLoads(Loads):
    """Tells nothing."""

    def of(self, partition: Partition, tenure: Tenure) -> ClaimLoad | None:
        """None: it has measured nothing."""
        del partition, tenure
        return None

    def look_due(self) -> None:
        """Report nothing."""
