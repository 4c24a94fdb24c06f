"""Members that are killed, and members that sleep until others have taken their place."""

from __future__ import annotations

from tests.chaos.faults.fault import Fault
from tests.chaos.scene import SESSION_TIMEOUT_MS, Scene


class KillMember(Fault):
    """kill -9 of any member; another one comes now, later, or not at all."""

    name = "kill -9 of a member"
    soaks = True

    def strike(self, scene: Scene) -> None:
        scene.kill(scene.pick())
        if scene.rng.random() < 0.7:
            scene.pause_ms(0, SESSION_TIMEOUT_MS + 2_000)
            scene.start()


class KillBesideHotKey(Fault):
    """kill -9 of members, one after the other, while a key has a stream of its own."""

    name = "kill -9 beside a hot key"
    hot = True

    def strike(self, scene: Scene) -> None:
        for _ in range(scene.rng.randint(2, 4)):
            scene.go_on(1, 800)
            name = scene.pick()
            scene.kill(name)
            scene.pause_ms(0, SESSION_TIMEOUT_MS + 2_000)
            scene.fleet.start_again(name)


class KillLeader(Fault):
    """kill -9 of the member that made the assignment, perhaps while it makes the next one."""

    name = "kill -9 of the leader"
    quick = True

    def strike(self, scene: Scene) -> None:
        if scene.rng.random() < 0.5:
            scene.start()
            scene.pause_ms(0, 1_500)
        scene.fleet.wait(lambda: scene.fleet.leader in scene.fleet.names, "a leader")
        scene.kill(scene.fleet.leader)
        scene.pause_ms(0, 2_000)
        scene.start()


class KillAll(Fault):
    """kill -9 of every member at once; all come again, under the same names."""

    name = "kill -9 of all members"

    def strike(self, scene: Scene) -> None:
        names = scene.fleet.names
        for name in names:
            scene.kill(name)
        scene.pause_ms(0, SESSION_TIMEOUT_MS + 2_000)
        for name in names:
            scene.fleet.start_again(name)


class KillStaticMember(Fault):
    """kill -9 of a static member that is back within its session: nobody else is disturbed."""

    name = "kill -9 of a static member"

    def muster(self, scene: Scene) -> None:
        for number in range(scene.rng.randint(3, 5)):
            scene.fleet.start(f"m{number}", {"group.instance.id": f"static-{number}"})

    def strike(self, scene: Scene) -> None:
        for _ in range(scene.rng.randint(1, 3)):
            name = scene.pick()
            scene.kill(name)
            scene.pause_ms(0, SESSION_TIMEOUT_MS // 2)
            scene.fleet.start_again(name)
            scene.go_on(50, 300)


class Zombie(Fault):
    """SIGSTOP beyond the session time-out, then SIGCONT: a member that missed its own funeral."""

    name = "SIGSTOP beyond the session"
    soaks = True
    quick = True

    def strike(self, scene: Scene) -> None:
        names = scene.rng.sample(scene.fleet.names, k=scene.rng.choice((1, 1, 2)))
        for name in names:
            scene.tell(f"SIGSTOP {name}")
            scene.fleet.freeze(name)
        scene.pause_ms(SESSION_TIMEOUT_MS + 500, SESSION_TIMEOUT_MS + 3_000)
        for name in names:
            scene.tell(f"SIGCONT {name}")
            scene.fleet.thaw(name)


class Nap(Fault):
    """SIGSTOP within the session time-out, again and again: nobody may take these ranges."""

    name = "SIGSTOP within the session"
    soaks = True

    def strike(self, scene: Scene) -> None:
        for _ in range(scene.rng.randint(1, 3)):
            name = scene.pick()
            scene.pause_ms(500, 1_000)  # it may be the one that slept last, and has to be heard
            scene.tell(f"SIGSTOP {name}")
            scene.fleet.doze(name)
            scene.pause_ms(200, SESSION_TIMEOUT_MS // 2)
            scene.fleet.thaw(name)
            scene.tell(f"SIGCONT {name}")
