"""What librdkafka's clients say of themselves, cut down to some figures a client.

In: the JSON that a client hands out every `statistics.interval.ms`. Out: at most 15 figures, named
as the rows of `coop_consumer.ops.tables.clients`. The JSON has hundreds of values, most of them by
broker and partition.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coop_consumer.core.events import ClientFigures
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from coop_consumer.config import Config

log = logging.getLogger(__name__)

_US = 1e-6


def with_figures(
    config: Config, settings: dict[str, Any], role: str, tell: Callable[[ClientFigures], None]
) -> dict[str, Any]:
    """Settings of a client that hands out its figures, if the configuration wants them.

    Args:
        config: The member's.
        settings: Of the client.
        role: Which client it is; no other one at work has this role.
        tell: Takes the figures, on the thread that serves the client.
    """
    if not config.statistics_interval_ms:
        return settings

    def told(text: str) -> None:
        try:
            figures = figures_of(text)
        except (ValueError, TypeError, AttributeError):  # of a librdkafka to come, perhaps
            extra = LogEvent.STATISTICS_UNREADABLE.extra()
            what = "the statistics of client %s cannot be read"
            log.info(what, role, exc_info=True, extra=extra)
            return
        tell(ClientFigures(role, figures))

    more = {"statistics.interval.ms": config.statistics_interval_ms, "stats_cb": told}
    return {**settings, **more}


def figures_of(text: str) -> dict[str, float]:
    """The figures in a client's JSON. O(brokers + partitions)."""
    found = json.loads(text)
    brokers = [it for it in found.get("brokers", {}).values() if it.get("nodeid", -1) >= 0]
    partitions = [
        partition
        for topic in found.get("topics", {}).values()
        for partition in topic.get("partitions", {}).values()
    ]

    def of_brokers(*names: str) -> float:
        # Those that bootstrap.servers names are in it, too: the first connection is theirs.
        every = found.get("brokers", {}).values()
        return float(sum(it.get(name, 0) for it in every for name in names))

    return {
        "requests_total": float(found.get("tx", 0)),
        "responses_total": float(found.get("rx", 0)),
        "sent_bytes_total": float(found.get("tx_bytes", 0)),
        "received_bytes_total": float(found.get("rx_bytes", 0)),
        "sent_records_total": float(found.get("txmsgs", 0)),
        "received_records_total": float(found.get("rxmsgs", 0)),
        "request_errors_total": of_brokers("txerrs", "rxerrs"),
        "request_retries_total": of_brokers("txretries"),
        "request_timeouts_total": of_brokers("req_timeouts"),
        "connects_total": of_brokers("connects"),
        "disconnects_total": of_brokers("disconnects"),
        "waiting_records": float(found.get("msg_cnt", 0)),
        "prefetched_records": float(sum(it.get("fetchq_cnt", 0) for it in partitions)),
        "brokers_up": float(sum(it.get("state") == "UP" for it in brokers)),
        "round_trip_p99_seconds": max((_rtt_s(it) for it in brokers), default=0.0),
    }


def _rtt_s(broker: dict[str, Any]) -> float:
    return float(broker.get("rtt", {}).get("p99", 0)) * _US
