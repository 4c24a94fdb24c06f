"""A cluster is up when it answers as Kafka, not when a port is open.

Room: `coop_consumer.broker`. In: client settings, the nodes expected, the cluster's id.
Out: returns once a metadata answer of this very cluster names them all. Touches the broker only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Set

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from coop_consumer.broker.security import ClientConfig

ANSWER_TIMEOUT_S = 0.5

_ANSWERS_MISSED = 5
"""After so many questions, another client asks. The first may have learnt that there are no
brokers, and then it has nobody to ask (librdkafka's issue 5301)."""


def wait_until_ready(
    client_config: ClientConfig,
    cluster_id: str,
    node_ids: Set[int],
    timeout_s: float,
    check: Callable[[], None],
) -> None:
    """Wait until the cluster's metadata names `node_ids`; `check` is called between questions.

    The cluster's id is compared, because another broker may have taken a port we had picked.

    Raises:
        TimeoutError: Not ready after `timeout_s`; the text has the last answer.
        Exception: Whatever `check` raises, to end the wait early.
    """
    quiet: ClientConfig = {
        "log_level": 0,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 250,
    }
    admin, missed = AdminClient(client_config | quiet), 0
    deadline = time.monotonic() + timeout_s
    answer = "nothing was asked"
    while time.monotonic() < deadline:
        check()
        try:
            metadata = admin.list_topics(timeout=ANSWER_TIMEOUT_S)
        except KafkaException as error:
            answer, missed = str(error), missed + 1
            if missed % _ANSWERS_MISSED == 0:
                admin = AdminClient(client_config | quiet)
            continue
        if metadata.cluster_id == cluster_id and node_ids <= metadata.brokers.keys():
            return
        answer = f"cluster {metadata.cluster_id} with nodes {sorted(metadata.brokers)}"
        time.sleep(0.05)
    raise TimeoutError(f"not ready after {timeout_s:.0f} s (last answer: {answer})")
