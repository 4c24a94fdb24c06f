"""A member's place in its group, as librdkafka's transactional Producer takes it.

In: a member's `GroupMetadata`, as its membership has it from the coordinator. Out: the bytes that
`Producer.send_offsets_to_transaction` wants. librdkafka makes such bytes for its own Consumer only,
and has no public form of them. So a check compares ours with what an unjoined Consumer gives.
"""

from __future__ import annotations

import struct

from confluent_kafka import Consumer, libversion

from coop_consumer.config import Config
from coop_consumer.core.events import NO_MEMBER, GroupMetadata
from coop_consumer.errors import ClientVersionError
from coop_consumer.kafka.clients import log as client_log
from coop_consumer.kafka.clients import making
from coop_consumer.kafka.token_login import without_login

_VERSION = b"CGMDv2:"
_NONE, _SOME = b"\x01", b"\x00"


def encoded(group: str, metadata: GroupMetadata) -> bytes:
    """The bytes for a member of this group.

    Of one that is no member, a coordinator takes offsets into a living group, unchecked. So they
    must not leave the process.
    """
    instance = metadata.instance_id
    return b"".join(
        (
            _VERSION,
            struct.pack("=i", metadata.generation),
            group.encode() + b"\0",
            metadata.member_id.encode() + b"\0",
            _NONE if instance is None else _SOME + instance.encode() + b"\0",
        )
    )


def check_encoding(config: Config) -> None:
    """Check that this librdkafka understands the bytes. O(1); asks no broker.

    Raises:
        ClientVersionError: It does not.
        ConfigError: For a setting that it refuses.
    """
    with making(config):
        consumer = Consumer(without_login(config.data_plane()), logger=client_log)
    try:
        theirs = consumer.consumer_group_metadata()
    finally:
        consumer.close()
    if theirs != encoded(config.group_id, NO_MEMBER):
        version, _ = libversion()
        raise ClientVersionError(
            config.client_id,
            f"librdkafka {version} writes the metadata of a group in another form than this "
            "release of coop-consumer knows",
        )
