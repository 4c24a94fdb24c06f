"""Many members at once."""

from __future__ import annotations

from tests.chaos.faults.fault import Fault
from tests.chaos.scene import Scene

CROWD = 30
JOINING_MS = 5_000


class Crowd(Fault):
    """Thirty members join within five seconds, work, and leave again."""

    name = "30 members join and leave"

    def muster(self, scene: Scene) -> None:
        super().muster(scene)
        for number in range(CROWD):
            scene.fleet.start(f"crowd-{number}", waits=True)

    def strike(self, scene: Scene) -> None:
        crowd = [f"crowd-{number}" for number in range(CROWD)]
        there = len(scene.fleet.names)
        scene.fleet.wait_until_ready(crowd)
        scene.tell("thirty processes are ready to join")
        scene.rng.shuffle(crowd)
        for name in crowd:
            scene.fleet.let_join(name)
            scene.pause_ms(0, 2 * JOINING_MS // CROWD)
        scene.tell("thirty have been told to join")
        scene.fleet.wait(lambda: scene.fleet.size == there, f"a generation of {there} members")
        scene.go_on(0, 400)
        leaving = CROWD
        while leaving:
            party = scene.rng.randint(1, leaving)
            scene.tell(f"{party} leave")
            scene.fleet.stop(*crowd[leaving - party : leaving])
            leaving -= party
