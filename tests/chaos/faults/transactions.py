"""What befalls members in the midst of a transaction, and transactions whatever members do."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from tests.chaos.faults.fault import Fault
from tests.chaos.scene import SESSION_TIMEOUT_MS, Scene


class KillInTransaction(Fault):
    """kill -9 of a member at a step of a transaction, again and again."""

    name = "kill -9 in a transaction"
    at_least_once = False
    soaks = True

    def strike(self, scene: Scene) -> None:
        for _ in range(scene.rng.randint(1, 4)):
            name = scene.pick()
            scene.halt(name)
            scene.kill(name)
            scene.pause_ms(0, 2_000)
            if scene.rng.random() < 0.7:
                scene.fleet.start_again(name)
            else:
                scene.start()


class KillChild(Fault):
    """kill -9 of processes that run handlers: their records run again, and nothing is doubled."""

    name = "kill -9 of a child"
    at_least_once = False
    executor = "process"

    def strike(self, scene: Scene) -> None:
        for _ in range(scene.rng.randint(3, 8)):
            name = scene.pick()
            children = scene.fleet.children(name)
            if children:
                with suppress(ProcessLookupError):  # it has ended by itself
                    os.kill(scene.rng.choice(children), signal.SIGKILL)
                    scene.tell_kill(f"a child of {name}")
            scene.pause_ms(0, 500)


class ZombieInTransaction(Fault):
    """SIGSTOP at a step of a transaction, beyond the session: its commit may come after all.

    One of two members stands before its progress: whoever had been checked by then would write it
    behind the end to which the successor reads.
    """

    name = "SIGSTOP in a transaction, beyond the session"
    at_least_once = False
    soaks = True
    quick = True

    def strike(self, scene: Scene) -> None:
        names = scene.rng.sample(scene.fleet.names, k=2)
        for name, before in zip(names, (("PROGRESS",), ("OFFSETS", "COMMIT")), strict=True):
            scene.halt(name, *before)
            scene.fleet.note_absence(name)
        scene.pause_ms(SESSION_TIMEOUT_MS + 500, SESSION_TIMEOUT_MS + 3_000)
        for name in names:
            scene.tell(f"SIGCONT {name}")
            scene.fleet.thaw(name)


class SlowTransaction(Fault):
    """SIGSTOP at a step, for longer than a transaction may take and within the session."""

    name = "SIGSTOP beyond the transaction's time-out"
    at_least_once = False

    def muster(self, scene: Scene) -> None:
        for number in range(scene.rng.randint(3, 4)):
            scene.fleet.start(f"m{number}", {"transaction.timeout.ms": 1_000})

    def strike(self, scene: Scene) -> None:
        for _ in range(scene.rng.randint(1, 3)):
            name = scene.pick()
            scene.halt(name)
            scene.pause_ms(2_500, SESSION_TIMEOUT_MS - 1_500)
            scene.fleet.thaw(name)
            scene.tell(f"SIGCONT {name}")
            scene.go_on(50, 300)


class Rival(Fault):
    """Somebody takes a member's transactional.id: at any moment, and at a step of a transaction."""

    name = "a rival's fence"
    at_least_once = False
    soaks = True
    quick = True

    def strike(self, scene: Scene) -> None:
        for _ in range(scene.rng.randint(2, 5)):
            name = scene.pick()
            is_at_step = scene.rng.random() < 0.7
            if is_at_step:
                scene.halt(name)
            scene.fence(name)
            if is_at_step:
                scene.fleet.thaw(name)
                scene.tell(f"SIGCONT {name}")
            scene.go_on(20, 200)


class LostAnswer(Fault):
    """The answer to a step of a transaction is lost; then a rival takes the transactional.id.

    So the fate of a commit that the broker has made is told to nobody: the first time for certain,
    and then wherever the seed says.
    """

    name = "answer lost, then a rival's fence"
    at_least_once = False

    def muster(self, scene: Scene) -> None:
        scene.fleet.start("far", {"bootstrap.servers": scene.arena.proxy.address})
        for _ in range(scene.rng.randint(2, 3)):
            scene.start()

    def strike(self, scene: Scene) -> None:
        proxy = scene.arena.proxy
        for number in range(scene.rng.randint(2, 3)):
            others = ("COMMIT", "PROGRESS", "OFFSETS") if number else ()
            scene.halt("far", "COMMIT", *others)
            scene.tell("no answers to the far member")
            proxy.hold(to_broker=False, to_member=True)
            scene.fleet.thaw("far")
            scene.pause_ms(300, 1_000)
            if not number or scene.rng.random() < 0.8:
                scene.fence("far")
            proxy.reset()
            proxy.open()
            scene.tell("the network is whole")
            scene.go_on(100, 300)


class BrokerInTransaction(Fault):
    """kill -9 of a broker while members stand at steps of their transactions."""

    name = "broker kill -9 in a transaction"
    ends_broker = True
    at_least_once = False

    def strike(self, scene: Scene) -> None:
        names = scene.rng.sample(scene.fleet.names, k=2)
        for name in names:
            scene.halt(name)
        scene.tell_kill("the broker")
        scene.arena.broker.kill(0)
        for name in names:
            scene.fleet.thaw(name)
            scene.tell(f"SIGCONT {name}")
        scene.pause_ms(0, 2_000)
        scene.arena.restart(0)
        scene.tell("the broker is back")


class ComeAndGo(Fault):
    """Members join and leave, twenty times, as fast as they can: nobody waits for a transaction."""

    name = "20 joins and leaves"
    at_least_once = False
    soaks = True

    def strike(self, scene: Scene) -> None:
        for _ in range(20):
            name = scene.start()
            scene.fleet.wait_for_generation_of(name)
            scene.go_on(1, 40)
            scene.tell(f"{name} leaves")
            scene.fleet.stop(name)
