"""The network between some members and the broker."""

from __future__ import annotations

from tests.chaos.faults.fault import Fault
from tests.chaos.scene import SESSION_TIMEOUT_MS, Scene


class CutNetwork(Fault):
    """One member, or two, cannot reach the broker, for a moment or until they are given up."""

    name = "network cut"

    def muster(self, scene: Scene) -> None:
        far = scene.rng.choice((1, 1, 2))
        for number in range(far):
            scene.fleet.start(f"far{number}", {"bootstrap.servers": scene.arena.proxy.address})
        for _ in range(scene.rng.randint(2, 3)):
            scene.start()

    def strike(self, scene: Scene) -> None:
        proxy, rng = scene.arena.proxy, scene.rng
        how = rng.choice(("silence", "no replies", "resets"))
        is_long = rng.random() < 0.5
        scene.tell(f"network of the far members: {how}, {'long' if is_long else 'short'}")
        if how == "resets":
            proxy.refuse()
        else:
            proxy.hold(to_broker=how == "silence", to_member=True)
        if is_long:
            for name in scene.fleet.names:
                if name.startswith("far"):
                    scene.fleet.note_absence(name)
            scene.pause_ms(SESSION_TIMEOUT_MS + 500, SESSION_TIMEOUT_MS + 4_000)
        else:
            scene.pause_ms(100, SESSION_TIMEOUT_MS // 2)
        if rng.random() < 0.5:
            proxy.reset()  # what was held is gone: lost requests, or lost replies
        proxy.open()
        scene.tell("the network is whole")
