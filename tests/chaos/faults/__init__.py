"""Everything that may befall a group. One idea a class; `FAULTS` is the list."""

from __future__ import annotations

from tests.chaos.faults.broker import FullDisk, KillBroker, RestartBroker
from tests.chaos.faults.churn import Crowd
from tests.chaos.faults.cluster import KillOneOfThree, MoveLeaders
from tests.chaos.faults.fault import Fault
from tests.chaos.faults.members import (
    KillAll,
    KillBesideHotKey,
    KillLeader,
    KillMember,
    KillStaticMember,
    Nap,
    Zombie,
)
from tests.chaos.faults.network import CutNetwork
from tests.chaos.faults.progress_topic import DeleteTopic, Garbage, Truncate
from tests.chaos.faults.transactions import (
    BrokerInTransaction,
    ComeAndGo,
    KillChild,
    KillInTransaction,
    LostAnswer,
    Rival,
    SlowTransaction,
    ZombieInTransaction,
)

FAULTS: tuple[Fault, ...] = (
    KillMember(),
    KillBesideHotKey(),
    KillLeader(),
    KillAll(),
    KillStaticMember(),
    KillInTransaction(),
    KillChild(),
    Zombie(),
    ZombieInTransaction(),
    SlowTransaction(),
    Nap(),
    Rival(),
    LostAnswer(),
    ComeAndGo(),
    Crowd(),
    CutNetwork(),
    RestartBroker(),
    KillBroker(),
    BrokerInTransaction(),
    FullDisk(),
    DeleteTopic(),
    Truncate(),
    Garbage(),
    MoveLeaders(),
    KillOneOfThree(),
)

__all__ = ["FAULTS", "Fault"]
