"""What operators and programs gone wrong do to the progress topic."""

from __future__ import annotations

from confluent_kafka import Producer

from offsets import TenureId, TenureKey, encode_key
from tests.chaos.faults.fault import Fault
from tests.chaos.scene import LOG_PARTITIONS, Scene
from tests.support.stock import ends
from tests.support.topics import ADMIN_TIMEOUT_S, set_topic, truncate

GARBAGE = 60


class DeleteTopic(Fault):
    """The progress topic is deleted while members live."""

    name = "progress topic deleted"
    loses_progress = True
    exactly_once = False

    def strike(self, scene: Scene) -> None:
        scene.tell("the progress topic is deleted")
        scene.arena.remove(scene.progress_topic)


class Truncate(Fault):
    """The progress topic's records are deleted, in part or all of them."""

    name = "progress topic truncated"
    loses_progress = True
    exactly_once = False

    def strike(self, scene: Scene) -> None:
        admin, topic = scene.arena.admin, scene.progress_topic
        share = scene.rng.choice((0.5, 1.0))
        found = ends(admin, topic, LOG_PARTITIONS)
        below = {number: int(end * share) for (_, number), end in found.items()}
        scene.tell(f"the progress topic is cut to {sorted(below.items())}")
        truncate(admin, topic, below)


class Garbage(Fault):
    """Records that nobody can read, among those of the group."""

    name = "progress topic fed garbage"
    exactly_once = False
    soaks = True
    quick = True

    def strike(self, scene: Scene) -> None:
        rng, topic = scene.rng, scene.progress_topic
        whole = encode_key(TenureKey(scene.group, bytes(16), 0, TenureId("stranger", 1, 0)))
        scene.tell(f"{GARBAGE} records of garbage")
        admin = scene.arena.admin
        set_topic(
            admin, topic, "cleanup.policy", "delete"
        )  # what is compacted refuses records without a key
        producer = Producer({**scene.arena.quiet_client, "acks": "all"})
        for _ in range(GARBAGE):
            noise = rng.randbytes(rng.randint(0, 200))
            key = rng.choice((noise, None, whole, whole[:-1], bytes([whole[0] ^ 255]) + whole[1:]))
            value = rng.choice((noise, b"", None, b"\xff" * 20, bytes([0, 99]) + noise))
            producer.produce(topic, value, key, rng.randrange(LOG_PARTITIONS))
        assert producer.flush(ADMIN_TIMEOUT_S) == 0
        set_topic(admin, topic, "cleanup.policy", "compact")
