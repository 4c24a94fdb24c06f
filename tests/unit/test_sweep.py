"""A sweep beside a group that wakes up: real members, and every order of their steps.

The story: Kafka has forgotten the group. Its log has gap ranges, and a member starts just as `gc`
looks. Each step of either meets the broker at a moment of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations_with_replacement, islice

import pytest

from assignors import WHOLE
from coop_consumer.admin.remains import Inventory
from coop_consumer.admin.sweep import Sweep, SweepState
from coop_consumer.core import actions, events
from offsets import (
    AnnounceKey,
    AnnounceRecord,
    BaseKey,
    BaseRecord,
    Committed,
    Key,
    LogRecord,
    MemoryLog,
    PolicyKey,
    PolicyRecord,
    Tag,
    TenureKey,
    TopicStartKey,
    TopicStartRecord,
    Value,
    decode_key,
    encode_key,
    encode_value,
)
from tests.unit.core_member import GROUP, T0, TOPIC_ID, TableMember, store_of

KEYS = [b"k%d" % i for i in range(6)]
ALL = list(range(6))
DONE = {0, 2, 3}
"""What the first life of the group has finished: its stable offset is 1."""
LEFT = [1, 4, 5]
NAMES = {TOPIC_ID: "t"}
ANSWERED = {
    actions.Append,
    actions.Commit,
    actions.ReadLog,
    actions.FetchCommitted,
    actions.CommitOffsets,
    actions.ConfirmMembership,
    actions.ResolveOffset,
    actions.RangesAssigned,
}

Steps = Sequence[Callable[[], None]]


class Broker:
    """The log, and a coordinator that knows members and a committed offset."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.committed: Committed | None = None
        self.members: set[str] = set()
        self.processed: list[int] = []

    def take(self, offset: Committed | None) -> bool:
        """A commit from outside, or a deletion: refused while the group has members."""
        if self.members:
            return False
        self.committed = offset
        return True


class Waker(TableMember):
    """A member whose every question is answered when the test says so."""

    def __init__(self, broker: Broker, name: str, incarnation: int) -> None:
        self.broker = broker
        super().__init__(name, log=broker.log, incarnation=incarnation, kept_back=ANSWERED)

    @property
    def committed(self) -> Committed | None:  # type: ignore[override] # shared by all
        return self.broker.committed

    @committed.setter
    def committed(self, value: Committed | None) -> None:
        if self.name in self.broker.members:
            self.broker.committed = value

    def join(self) -> None:
        self.broker.members.add(self.name)
        self.assign(WHOLE)

    def step(self) -> None:
        """One answer comes, or some time passes."""
        if not self.unanswered:
            self.after(100)
            return
        for event in self.answers(self.unanswered.pop(0)):
            self.tell(event)

    def begin(self) -> None:
        """Take all the steps that are left until it may work."""
        while self.unanswered or not self.told(actions.StartStream):
            self.step()

    def work(self) -> list[int]:
        """Do what is to be done, and leave."""
        self.let_go()
        self.produce(*KEYS)
        done = self.finish_all()
        self.tell(events.Close())
        self.after(1_000)
        self.broker.members.discard(self.name)
        self.broker.processed += done
        return sorted(done)

    def fall(self, done: Iterable[int]) -> None:
        """Finish these, and end without a word: the session expires."""
        self.let_go()
        self.produce(*KEYS)
        self.start()
        for offset in done:
            self.finish(offset)
        self.after(200)
        self.broker.members.discard(self.name)
        self.broker.processed += done


class Gc:
    """The steps of `gc`, each at a moment of its own."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.sweep = Sweep(GROUP, Tag.AT_LEAST_ONCE, 1)
        self.is_over = False
        self.retired: Committed | None = None
        self._read_to = 0
        self._tombstones: list[bytes] = []

    def look(self) -> None:
        found = self.broker.log.read(self._read_to, 1_000)
        self._read_to = found.next_offset
        for record in found.records:
            self.sweep.take(0, record)

    def retire(self) -> None:
        [self.retired] = self.sweep.retire({0: self._read_to}, NAMES).values()
        self.is_over = not self.broker.take(self.retired)

    def look_again(self) -> None:
        if self.is_over:
            return
        self.look()
        is_changed = self.broker.committed != self.retired
        self.is_over = is_changed or self.sweep.state is SweepState.WOKEN
        if not self.is_over:
            [self._tombstones] = self.sweep.clear().values()
        elif not is_changed:
            self.broker.take(self.sweep.taken_back(NAMES)[T0])

    def some(self) -> None:
        """Append half of the tombstones."""
        half = -(-len(self._tombstones) // 2)
        for key in self._tombstones[:half]:
            self.broker.log.append(key, None)
        self._tombstones = self._tombstones[half:]

    def the_rest(self) -> None:
        for key in self._tombstones:
            self.broker.log.append(key, None)

    def forget(self) -> None:
        if not self.is_over:
            self.broker.take(None)

    @property
    def after_retiring(self) -> Steps:
        return [self.look_again, self.some, self.the_rest, self.forget]


def first_life(broker: Broker) -> Gc:
    """The group finishes some of its records, falls, and Kafka forgets it. Then `gc` looks."""
    member = Waker(broker, "m0", 1)
    member.join()
    member.begin()
    member.fall(DONE)
    assert store_of(broker.log).progress().stable == 1
    broker.committed = None
    gc = Gc(broker)
    gc.look()
    return gc


STEPS = 10
"""Of a member until it has begun; more of them find nothing to do."""


def orders(steps: int, every: int = 1) -> Iterator[tuple[int, ...]]:
    """For so many steps of `gc`, each order among those of a member: before which of its own.

    Of the 1,820 orders of four steps each test takes others, as all of them take a minute.
    """
    yield from islice(combinations_with_replacement(range(STEPS + 3), steps), 0, None, every)


def wake_beside(broker: Broker, steps: Steps, order: tuple[int, ...]) -> list[int]:
    """A member joins, works and leaves, with these steps in between; what it did."""
    waker = Waker(broker, "m1", 2)
    done: list[int] = []
    for number in range(STEPS + 3):
        for at, step in zip(order, steps, strict=True):
            if at == number:
                step()
        if number == 0:
            waker.join()
        elif number <= STEPS:
            waker.step()
        elif number == STEPS + 1:
            waker.begin()
            done = waker.work()
    return done


def judge_the_next_life(broker: Broker, order: tuple[int, ...]) -> None:
    """Whatever came late: nothing was skipped, and what the member did does not come again."""
    assert set(broker.processed) == set(ALL), f"I2: skipped, {order}"
    later = Waker(broker, "m2", 3)
    later.join()
    later.begin()
    assert later.work() == [], f"I3: done again, {order}"
    later.store.check()


def test_a_group_that_joined_before_the_commit_loses_nothing_that_it_had_done() -> None:
    for [at] in orders(1):
        broker = Broker()
        gc = first_life(broker)
        done = wake_beside(broker, [gc.retire], (at,))
        # After the member has left, the commit is taken, and the log has more: it is void.
        gc.look_again()
        assert done == (LEFT if at else [1, 2, 3, 4, 5])
        judge_the_next_life(broker, (at,))


def test_a_group_that_wakes_up_behind_the_commit_goes_on_at_its_stable_offset() -> None:
    """Or anew, once it is cleared: in any order nothing is skipped or mixed."""
    for order in orders(4, 11):
        broker = Broker()
        gc = first_life(broker)
        gc.retire()
        done = wake_beside(broker, gc.after_retiring, order)
        assert done == (ALL if order == (0, 0, 0, 0) else [1, 2, 3, 4, 5]), order
        judge_the_next_life(broker, order)


def test_a_life_between_the_look_and_the_commit_is_not_overruled() -> None:
    """It came and went while `gc` slept, so the coordinator has taken the commit."""
    for order in orders(4, 13):
        broker = Broker()
        gc = first_life(broker)
        second = Waker(broker, "m0", 8)
        second.join()
        second.begin()
        second.fall({5})
        gc.retire()
        assert not gc.is_over
        assert wake_beside(broker, gc.after_retiring, order) == [1, 4], order
        assert gc.is_over or order[0] > 0
        judge_the_next_life(broker, order)


def test_an_epoch_without_tenures_is_not_continued_either() -> None:
    """Its base is about to go, and the retirement lies at that base."""
    for order in orders(4, 17):
        broker = Broker()
        key = BaseKey(GROUP, TOPIC_ID, 0, 1, "fell before it began")
        broker.log.append(encode_key(key), encode_value(BaseRecord(1, 0)))
        gc = Gc(broker)
        gc.look()
        gc.retire()
        assert wake_beside(broker, gc.after_retiring, order) == ALL
        judge_the_next_life(broker, order)


def test_gc_that_dies_after_any_step_leaves_a_log_that_skips_nothing() -> None:
    for count in range(5):
        for forgotten in (False, True):
            broker = Broker()
            gc = first_life(broker)
            gc.retire()
            for step in gc.after_retiring[:count]:
                step()
            if forgotten:  # Kafka drops the retirement, too, some days later
                broker.committed = None
            assert set(wake_beside(broker, [], ())) >= set(LEFT)
            judge_the_next_life(broker, (count,))


@pytest.mark.parametrize("offset", [None, Committed(1, "plain")], ids=["nothing", "plain"])
def test_the_orders_find_what_goes_wrong_without_a_retirement(offset: Committed | None) -> None:
    """With nothing committed, or an offset that any tool might set."""

    def is_harmless(order: tuple[int, ...]) -> bool:
        broker = Broker()
        gc = first_life(broker)
        if offset is not None:
            second = Waker(broker, "m0", 8)
            second.join()
            second.begin()
            second.fall({5})
        gc.retire()
        broker.committed = gc.retired = offset
        try:
            done = wake_beside(broker, gc.after_retiring, order)
            judge_the_next_life(broker, order)
        except AssertionError:
            return False
        return done == LEFT or (offset is None and done == ALL)

    assert not all(map(is_harmless, orders(4)))


# ---- what is cleared -----------------------------------------------------------------------------

HOUR_MS = 3_600_000


def record(at: int, key: Key, value: Value | None, timestamp_ms: int = HOUR_MS) -> LogRecord:
    data = None if value is None else encode_value(value)
    return LogRecord(at, encode_key(key), data, timestamp_ms)


def announced(member: str, group: str = GROUP) -> tuple[Key, Value]:
    return AnnounceKey(group, member), AnnounceRecord(1, 0, "", "table")


def test_tombstones_go_to_the_groups_keys_alone_and_policies_stay() -> None:
    sweep = Sweep(GROUP, Tag.AT_LEAST_ONCE, 2)
    start = TopicStartKey(GROUP, "t", "m1"), TopicStartRecord(TOPIC_ID, 1)
    base = BaseKey(GROUP, TOPIC_ID, 0, 1, "m1"), BaseRecord(1, 0)
    policy = PolicyKey("group", GROUP), PolicyRecord({"accept.individual.commit": "false"})
    told = [start, base, announced("m1"), announced("m1", "another"), policy, announced("gone")]
    for at, entry in enumerate(told):
        sweep.take(1, record(at, *entry))
    sweep.take(1, record(9, AnnounceKey(GROUP, "gone"), None))
    sweep.take(0, LogRecord(0, b"\x01\xff", b"garbage", HOUR_MS))
    assert sweep.keys == 3
    sweep.retire({0: 1, 1: 10}, {})
    cleared = sweep.clear()
    keys = [decode_key(key) for key in cleared[1]]
    assert keys == [AnnounceKey(GROUP, "m1"), base[0], start[0]], "the base is behind facts"
    assert list(cleared) == [1]


def test_after_each_tombstone_no_more_is_done_than_before() -> None:
    broker = Broker()
    gc = first_life(broker)
    gc.retire()
    [keys] = gc.sweep.clear().values()
    assert {type(decode_key(key)) for key in keys} == {AnnounceKey, BaseKey, TenureKey}
    before = store_of(broker.log).progress()
    for key in keys:
        broker.log.append(key, None)
        after = store_of(broker.log).progress()
        assert all(map(before.contains, after.clip(WHOLE)))
        before = after


def test_a_group_that_wrote_since_cannot_be_cleared() -> None:
    sweep = Sweep(GROUP, Tag.AT_LEAST_ONCE, 1)
    sweep.take(0, record(0, *announced("m1")))
    with pytest.raises(AssertionError, match="I3"):
        sweep.clear()
    sweep.retire({0: 1}, {})
    sweep.take(0, record(1, *announced("m1", "another")))
    assert sweep.state is SweepState.RETIRED
    sweep.take(0, record(2, *announced("m2")))
    with pytest.raises(AssertionError, match="I3"):
        sweep.clear()


def test_what_a_topic_with_more_partitions_than_before_has_elsewhere_retires_nothing() -> None:
    """Members look for a partition's history in one log partition."""
    sweep = Sweep(GROUP, Tag.AT_LEAST_ONCE, 50)
    for number in range(50):
        sweep.take(number, record(0, BaseKey(GROUP, TOPIC_ID, 0, 1, "m"), BaseRecord(1, number)))
    retired = sweep.retire(dict.fromkeys(range(50), 1), NAMES)
    [offset] = retired.values()
    assert offset == Committed.retired(offset.offset, 1, TOPIC_ID, Tag.AT_LEAST_ONCE, 1)
    assert sweep.keys == 50


# ---- what groups have ----------------------------------------------------------------------------


def test_the_census_tells_what_each_group_has_and_when_it_wrote_last() -> None:
    inventory = Inventory()
    policy = PolicyKey("group", "b"), PolicyRecord({"accept.individual.commit": "false"})
    topics = PolicyKey("topic", "t"), PolicyRecord({"accept.range.fetch": "false"})
    inventory.take("log", 0, record(0, *announced("m1", "a"), timestamp_ms=5))
    inventory.take("log", 1, record(0, *announced("m1", "a"), timestamp_ms=7))
    inventory.take("log", 1, record(1, AnnounceKey("a", "m1"), None, timestamp_ms=99))
    inventory.take("log", 0, record(1, *policy, timestamp_ms=99))
    inventory.take("log", 0, record(2, *topics, timestamp_ms=99))
    inventory.take("log-b", 0, record(0, *announced("m1", "b"), timestamp_ms=9))
    inventory.take("log", 0, LogRecord(3, b"\x01\xff", b"garbage", 99))
    found = {(it.group, it.topic): it for it in inventory.remains()}
    assert list(found) == [("a", "log"), ("b", "log"), ("b", "log-b")]
    a, with_policy, b = found.values()
    assert (a.records, a.keys, a.last_ms) == (3, 1, 7), "a tombstone is no sign of life"
    assert a.size_bytes == 3 * len(encode_key(AnnounceKey("a", "m1"))) + 2 * len(
        encode_value(AnnounceRecord(1, 0, "", "table"))
    )
    assert (with_policy.keys, with_policy.last_ms) == (0, 0), "nor is a person's word"
    assert (b.keys, b.last_ms) == (1, 9)
    assert dict(inventory.unreadable) == {"corrupt key": 1}
