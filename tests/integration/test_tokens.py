"""A login by tokens (OAUTHBEARER, librdkafka's own OIDC), as Spark's source and sink use it.

The endpoint of tokens and the broker are real; the tokens are signed by nobody. No Spark runs: the
classes that Spark would call are called.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.errors import ConfigError
from streams_adapter.sinks.columns import OutputRecord
from streams_adapter.sinks.driver import SinkOptions
from streams_adapter.sinks.marks import BatchPlan
from streams_adapter.sinks.protocol import Planner, write_part
from streams_adapter.source.batch import BatchReader
from streams_adapter.source.options import SourceOptions
from streams_adapter.source.rows import SCHEMA
from tests.support.brokers import own_broker
from tests.support.certificates import make_security
from tests.support.tokens import ACCEPTED, unsigned
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration


@pytest.fixture
def endpoint() -> Iterator[str]:
    """Gives a token to whoever shows the secret."""

    class Giving(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            shown = base64.b64decode(self.headers["Authorization"].removeprefix("Basic "))
            is_right = shown == b"billing:hunter2"
            said = (
                {"access_token": unsigned("root")[0]} if is_right else {"error": "invalid_client"}
            )
            body = json.dumps(said).encode()
            self.send_response(200 if is_right else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Giving) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join()


def test_source_and_sink_log_in_by_tokens(endpoint: str, tmp_path: Path) -> None:
    security = make_security(tmp_path)
    with own_broker(security=security, config=ACCEPTED) as broker:
        root = AdminClient(broker.client_config("root"))
        create_topic(root, "orders")
        clients = {
            "kafka.bootstrap.servers": str(broker.client_config()["bootstrap.servers"]),
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.ca.location": str(security.truststore),
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.method": "oidc",
            "kafka.sasl.oauthbearer.client.id": "billing",
            "kafka.sasl.oauthbearer.client.secret": "hunter2",
            "kafka.sasl.oauthbearer.token.endpoint.url": endpoint,
        }
        options = SinkOptions.parse({**clients, "topic": "orders", "name": "orders-of-a-test"})
        planner = Planner(options.sink)
        plan, _ = planner.plan("query", 0, 1)
        planner.close()
        written, _ = write_part(options.sink, plan, 0, [OutputRecord("orders", b"v", b"k")])
        assert (written.rows, plan) == (1, BatchPlan("query", 0, 1))
        reader = BatchReader(
            SourceOptions.parse({**clients, "subscribe": "orders", "keyRanges": "1"}), SCHEMA, 1
        )
        [task] = reader.partitions()
        assert [it["value"].to_pylist() for it in reader.read(task)] == [[b"v"]]
        with pytest.raises(ConfigError, match="may not be set: only librdkafka would get tokens"):
            SourceOptions.parse({**clients, "subscribe": "orders", "group.id": "billing"})
