"""What librdkafka's clients say of themselves, with `statistics.interval.ms`. Pure data.

Each row is named after a figure of `coop_consumer.kafka.client_figures`; a test compares.
"""

from __future__ import annotations

from coop_consumer.ops.metric import MetricSection
from coop_consumer.ops.tables.row import FINE, LOOK, rows_of

_counter, _gauge, _ = rows_of(MetricSection.CLIENTS)

_BROKERS = "Look at the brokers and the network."

ROWS = (
    _counter("client_requests_total", "requests", "client", "Requests sent.", FINE, LOOK),
    _counter("client_responses_total", "responses", "client", "Responses received.", FINE, LOOK),
    _counter("client_sent_bytes_total", "bytes", "client", "Bytes sent.", FINE, LOOK),
    _counter("client_received_bytes_total", "bytes", "client", "Bytes received.", FINE, LOOK),
    _counter("client_sent_records_total", "records", "client", "Records produced.", FINE, LOOK),
    _counter("client_received_records_total", "records", "client", "Records fetched.", FINE, LOOK),
    _counter(
        "client_request_errors_total", "requests", "client",
        "Requests that could not be sent, or whose response could not be read.",
        "It grows.", _BROKERS,
    ),
    _counter(
        "client_request_retries_total", "requests", "client",
        "Requests that were sent again.", "It grows.", _BROKERS,
    ),
    _counter(
        "client_request_timeouts_total", "requests", "client",
        "Requests that nobody answered in time.", "It grows.", _BROKERS,
    ),
    _counter(
        "client_connects_total", "connections", "client",
        "Attempts to connect.", "It grows by more than one a minute.", _BROKERS,
    ),
    _counter(
        "client_disconnects_total", "connections", "client",
        "Connections that were closed.", "It grows by more than one a minute.", _BROKERS,
    ),
    _gauge(
        "client_waiting_records", "records", "client",
        "Records that wait to be sent.", "It grows.", _BROKERS,
    ),
    _gauge(
        "client_prefetched_records", "records", "client",
        "Records that were fetched and not taken yet.", FINE, LOOK,
    ),
    _gauge(
        "client_brokers_up", "brokers", "client",
        "Brokers to which it has a connection.", "It is 0.", _BROKERS,
    ),
    _gauge(
        "client_round_trip_p99_seconds", "seconds", "client",
        "The 99th percentile of the time between a request and its response, of the slowest "
        "broker, since the last figures. A fetch waits at the broker for records, and counts.",
        "It is above a second where the client only writes.", _BROKERS,
    ),
)  # fmt: skip
