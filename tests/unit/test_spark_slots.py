"""How many tasks a cluster runs at once, as `keyRanges=auto` and `plan()` count them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from pyspark import cloudpickle

from streams_adapter import slots
from streams_adapter.slots import SlotsAddress, slots_address, slots_of


class Cluster:
    """Executors that come one after the other, and the time that passes meanwhile."""

    def __init__(self, *comes: tuple[float, int], master: str = "yarn", **conf: str) -> None:
        self.now_s, self.began_s, self.comes = 100.0, 100.0, comes
        scheduler = SimpleNamespace(
            resourceProfileManager=lambda: SimpleNamespace(defaultResourceProfile=lambda: None),
            maxNumConcurrentTasks=lambda _: self.registered,
        )
        self.context: Any = SimpleNamespace(
            _jsc=SimpleNamespace(sc=lambda: scheduler),
            getConf=lambda: {f"spark.{name.replace('_', '.')}": it for name, it in conf.items()},
            master=master,
            startTime=1_000 * self.began_s,
            applicationId=f"app-{uuid4().hex}",
            defaultParallelism=200,
        )

    @property
    def registered(self) -> int:
        age_s = self.now_s - self.began_s
        return sum(count for at_s, count in self.comes if at_s <= age_s)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return self.now_s


@pytest.fixture
def moving(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(cluster: Cluster) -> Any:
        monkeypatch.setattr(slots, "time", cluster)
        return cluster.context

    return use


@pytest.mark.parametrize(
    ("cluster", "expected", "waits_s"),
    [
        (Cluster((0, 4), (3, 4), master="local-cluster[2,4,1024]"), 8, 3),
        (Cluster((0, 2), (3, 2), master="local-cluster[2,4,1024]", task_cpus="2"), 4, 3),
        (Cluster((0, 2), master="local[2]"), 2, 0),
        (Cluster((0, 2), master="local[*, 3]", executor_instances="9"), 2, 0),
        (Cluster((2, 4), (9, 4), executor_instances="2", executor_cores="4"), 8, 9),
        (Cluster((2, 3), (9, 3), executor_instances="6"), 6, 9),
        (Cluster((1, 8), master="spark://m:7077", cores_max="16"), 8, slots.SLOTS_WAIT_S),
        # Nobody knows how many there will be: they are all there once none has come for a while.
        (Cluster((0, 4), (0.5, 4), (1.2, 4), (9, 4), master="spark://m:7077"), 12, 2.2),
        (Cluster((5, 4), master="spark://m:7077"), 4, 5 + slots.STEADY_S),
        (Cluster(master="spark://m:7077"), 1, slots.SLOTS_WAIT_S),
    ],
)
def test_a_young_application_waits_for_its_executors(
    moving: Any, cluster: Cluster, expected: int, waits_s: float
) -> None:
    assert slots_of(moving(cluster)) == expected
    assert cluster.now_s - cluster.began_s == pytest.approx(waits_s, abs=0.25)


def test_an_old_one_counts_those_that_are_there(moving: Any) -> None:
    cluster = Cluster((0, 8), (700, 8), executor_instances="4", executor_cores="8")
    context = moving(cluster)
    cluster.now_s += 600
    assert slots_of(context) == 8
    cluster.now_s += 200
    assert slots_of(context) == 16
    assert cluster.now_s == 900, "it has waited for nothing"


def test_a_cluster_that_grows_counts_as_far_as_is_known(moving: Any) -> None:
    grows = {"dynamicAllocation_enabled": "true", "task_cpus": "2", "executor_cores": "8"}
    bounded = Cluster((0, 4), **grows, dynamicAllocation_maxExecutors="5")
    assert slots_of(moving(bounded)) == 20
    assert slots_of(moving(Cluster((0, 4), **grows))) == 4
    assert slots_of(moving(Cluster(**grows))) == 1


def test_who_plans_asks_the_driver_each_time(moving: Any) -> None:
    cluster = Cluster((0, 8), (60, 8), master="local[8]")
    address = slots_address(moving(cluster))
    assert slots_address(cluster.context) is address
    planner = cloudpickle.loads(cloudpickle.dumps(address))  # type: ignore[no-untyped-call]
    assert planner() == 8
    cluster.now_s += 100
    assert planner() == 16
    stranger = SlotsAddress(address.port, "another", 3)
    assert stranger() == 3, "he is told nothing"


def test_a_driver_that_is_gone_leaves_what_was_known(
    moving: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster((0, 8), master="local[8]")
    address = slots_address(moving(cluster))
    cluster.context._jsc = None
    other = Cluster((0, 2), master="local[2]")
    assert slots_address(moving(other))() == 2
    assert address() == 8
    assert "goes by the 8 of when the format was registered" in caplog.text
