"""The only broker of a cluster goes away and comes back."""

from __future__ import annotations

from tests.chaos.faults.fault import Fault
from tests.chaos.scene import Scene


class RestartBroker(Fault):
    """The broker ends in order and starts again."""

    name = "broker restart"
    ends_broker = True
    soaks = True

    def strike(self, scene: Scene) -> None:
        scene.tell("restart of the broker")
        scene.arena.restart(0)
        scene.tell("the broker is back")


class KillBroker(Fault):
    """kill -9 of the broker."""

    name = "broker kill -9"
    ends_broker = True
    soaks = True
    quick = True

    def strike(self, scene: Scene) -> None:
        scene.tell_kill("the broker")
        scene.arena.broker.kill(0)
        scene.pause_ms(0, 3_000)
        scene.arena.restart(0)
        scene.tell("the broker is back")


class FullDisk(Fault):
    """No file of the broker may grow any more: it halts, and comes back to a disk with room."""

    name = "disk full"
    ends_broker = True

    def strike(self, scene: Scene) -> None:
        sizes = sorted(
            path.stat().st_size
            for topic in (scene.topic, scene.progress_topic)
            for path in scene.arena.data_dir(0).glob(f"{topic}-[0-9]/*.log")
        )
        limit_bytes = scene.rng.choice(sizes) + scene.rng.randint(0, 2_000)
        scene.tell(f"no file may grow beyond {limit_bytes} bytes")
        scene.arena.limit_files(0, limit_bytes)
        scene.arena.wait_for_death(0)
        scene.tell("the broker has halted")
        scene.pause_ms(0, 2_000)
        scene.arena.restart(0)
        scene.tell("the broker is back")
