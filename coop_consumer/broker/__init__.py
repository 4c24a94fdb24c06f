"""The embedded broker: real Apache Kafka as a child process, for tests, demos and a first try.

Room: `coop_consumer.broker`. In: a number of nodes, settings. Out: a cluster on
this machine's loopback address. It touches processes, ports and files; no other room starts either.
A broker never outlives the process that started it, unless it was detached on purpose.

    java       which Java runs it                     jars       its jars: kept and verified
    pinned     which jars these are                   maven      fetches them
    security   SASL/SCRAM over TLS with ACLs          settings   server.properties (pure)
    process    a child that ends with its parent      broker     `EmbeddedBroker`
    detached   the same broker, left in the background
"""

from coop_consumer.broker.broker import EmbeddedBroker
from coop_consumer.broker.detached import (
    DetachedBroker,
    running_detached,
    start_detached,
    status_detached,
    stop_detached,
)
from coop_consumer.broker.errors import (
    BrokerStartError,
    FolderError,
    JarsUnavailableError,
    JavaMissingError,
    PortTakenError,
)
from coop_consumer.broker.jars import ensure_jars
from coop_consumer.broker.java import Java, find_java
from coop_consumer.broker.pinned import KAFKA_VERSION
from coop_consumer.broker.security import BrokerSecurity

__all__ = [
    "KAFKA_VERSION",
    "BrokerSecurity",
    "BrokerStartError",
    "DetachedBroker",
    "EmbeddedBroker",
    "FolderError",
    "JarsUnavailableError",
    "Java",
    "JavaMissingError",
    "PortTakenError",
    "ensure_jars",
    "find_java",
    "running_detached",
    "start_detached",
    "status_detached",
    "stop_detached",
]
