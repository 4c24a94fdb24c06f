"""Three brokers with three replicas: leaders and coordinators move."""

from __future__ import annotations

from tests.chaos.faults.fault import Fault
from tests.chaos.scene import Scene


class MoveLeaders(Fault):
    """Each broker in turn ends in order and comes back; then every leader goes where it began."""

    name = "3 brokers: leaders move"
    nodes = 3

    def strike(self, scene: Scene) -> None:
        order = scene.rng.sample(range(3), k=scene.rng.randint(1, 3))
        for node in order:
            scene.tell(f"restart of broker {node}")
            scene.arena.restart(node)
        scene.arena.elect_preferred()
        scene.tell("the preferred leaders lead again")


class KillOneOfThree(Fault):
    """kill -9 of the group's coordinator, or of any broker."""

    name = "3 brokers: kill -9 of one"
    nodes = 3

    def strike(self, scene: Scene) -> None:
        coordinator = scene.arena.coordinator_of(scene.group)
        node = scene.rng.choice((coordinator, coordinator, 0, 1, 2))
        scene.tell_kill(f"broker {node}; {coordinator} was the coordinator")
        scene.arena.broker.kill(node)
        scene.go_on(100, 400)
        scene.arena.restart(node)
        scene.tell(f"broker {node} is back")
