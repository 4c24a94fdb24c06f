"""Writes a person's policy on who may share a partition to the progress log.

In: a configuration, a policy's key. Out: its record, or a tombstone. Blocks until it is acked.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue

from coop_consumer.config import Config
from coop_consumer.core.events import Appended, AppendFailed
from coop_consumer.core.policies import NAMES
from coop_consumer.errors import BrokerUnreachableError
from coop_consumer.kafka.log_writer import LogWriter
from coop_consumer.kafka.policies import LOG_PARTITION
from offsets import PolicyKey, PolicyRecord, encode_key, encode_value

_TIMEOUT_S = 10.0


def write_policy(config: Config, key: PolicyKey, *, accept: bool) -> None:
    """Set a policy. Acceptance is the default, so it deletes the policy's record.

    Raises:
        ProgressTopicError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    record = None if accept else encode_value(PolicyRecord({NAMES[key.scope]: "false"}))
    heard: SimpleQueue[Appended | AppendFailed] = SimpleQueue()
    writer = LogWriter(config.producer(), config.progress_topic, heard.put, name="coop-policy")
    try:
        writer.append(LOG_PARTITION, [(encode_key(key), record)], 0)
        answer = heard.get(timeout=_TIMEOUT_S)
    except Empty:
        detail = f"{config.progress_topic} took no record in {_TIMEOUT_S:g} s"
        raise BrokerUnreachableError(config.bootstrap_servers, detail) from None
    finally:
        writer.close(_TIMEOUT_S)
    if isinstance(answer, AppendFailed):
        raise answer.error
