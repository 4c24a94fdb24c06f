"""What operators and programs gone wrong do to the progress topic."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from offsets import TenureId, TenureKey, encode_key
from tests.chaos.faults.fault import Fault
from tests.chaos.scene import LOG_PARTITIONS, Scene
from tests.stock import ends
from tests.topics import ADMIN_TIMEOUT_S

GARBAGE = 60


def set_cleanup(scene: Scene, policy: str) -> None:
    """Change the progress topic's cleanup.policy."""
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, scene.progress_topic, incremental_configs=[entry])
    [done] = scene.arena.admin.incremental_alter_configs([resource]).values()
    done.result(ADMIN_TIMEOUT_S)


class DeleteTopic(Fault):
    """The progress topic is deleted while members live."""

    name = "progress topic deleted"
    loses_progress = True

    def strike(self, scene: Scene) -> None:
        scene.tell("the progress topic is deleted")
        scene.arena.remove(scene.progress_topic)


class Truncate(Fault):
    """The progress topic's records are deleted, in part or all of them."""

    name = "progress topic truncated"
    loses_progress = True

    def strike(self, scene: Scene) -> None:
        admin = scene.arena.admin
        set_cleanup(scene, "compact,delete")  # what is only compacted cannot be truncated
        share = scene.rng.choice((0.5, 1.0))
        found = ends(admin, scene.progress_topic, LOG_PARTITIONS)
        cut = [Place(topic, number, int(end * share)) for (topic, number), end in found.items()]
        scene.tell(f"the progress topic is cut to {[place.offset for place in cut]}")
        for done in admin.delete_records(cut).values():
            done.result(ADMIN_TIMEOUT_S)
        set_cleanup(scene, "compact")


class Garbage(Fault):
    """Records that nobody can read, among those of the group."""

    name = "progress topic fed garbage"
    soaks = True
    quick = True

    def strike(self, scene: Scene) -> None:
        rng, topic = scene.rng, scene.progress_topic
        whole = encode_key(TenureKey(scene.group, bytes(16), 0, TenureId("stranger", 1, 0)))
        scene.tell(f"{GARBAGE} records of garbage")
        set_cleanup(scene, "delete")  # what is compacted refuses records without a key
        producer = Producer({**scene.arena.quiet_client, "acks": "all"})
        for _ in range(GARBAGE):
            noise = rng.randbytes(rng.randint(0, 200))
            key = rng.choice((noise, None, whole, whole[:-1], bytes([whole[0] ^ 255]) + whole[1:]))
            value = rng.choice((noise, b"", None, b"\xff" * 20, bytes([0, 99]) + noise))
            producer.produce(topic, value, key, rng.randrange(LOG_PARTITIONS))
        assert producer.flush(ADMIN_TIMEOUT_S) == 0
        set_cleanup(scene, "compact")
