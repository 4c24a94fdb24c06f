"""A member tells its load in its claims and in the log, and names a key that no worker helps."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from assignors import WHOLE, KeyRange, TopicPartition, decode_subscription, key_hash
from coop_consumer.config import LogKeys
from coop_consumer.core import actions, events, loads
from coop_consumer.core.busy_keys import AGAIN_MS, WINDOW_MS, BusyKeys
from coop_consumer.core.key_names import named
from coop_consumer.core.lane import Lane
from coop_consumer.core.tenure import Tenure
from coop_consumer.errors import BrokerUnreachableError
from offsets import (
    AnnounceKey,
    HeavyKey,
    LoadKey,
    LoadRecord,
    PartitionLoad,
    ProgressStore,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.unit.core_member import (
    GROUP,
    HIGH,
    LOW,
    T0,
    TOPIC_ID,
    TableMember,
    keys_in,
)

HOT = b"N14228"
REPORT_MS = loads.REPORT_MS


def member_at_work(
    *ranges: KeyRange, keys: list[bytes] | None = None, seconds: int = 40, **settings: object
) -> TableMember:
    """A member with one worker that has run 20 records a second, 20 ms each."""
    member = TableMember(**settings)  # type: ignore[arg-type]
    member.core.lanes.work.workers = 1
    member.assign(*(ranges or (WHOLE,)))
    work(member, keys or [HOT, *keys_in(WHOLE, 3)], seconds)
    return member


def work(member: TableMember, keys: list[bytes], seconds: int) -> None:
    turns = [keys[number % len(keys)] for number in range(20)]
    for _ in range(seconds):
        member.produce(*turns)
        done = len(member.finish_all())
        member.core.lanes.work.spent.append((0.02 * done, done, "t"))
        member.after(1_000)


def reports(member: TableMember) -> list[LoadRecord | None]:
    """What was appended under the member's load key; None: a tombstone."""
    found = []
    for action in member.to_log():
        for data, value in action.entries if isinstance(action, actions.Append) else ():
            key = decode_key(data)
            if isinstance(key, LoadKey):
                assert (key.group, key.member) == (GROUP, member.name)
                record = None if value is None else decode_value(key, value)
                assert record is None or isinstance(record, LoadRecord)
                found.append(record)
    return found


def log_entries(member: TableMember) -> int:
    """How many records it has appended to the log."""
    return sum(len(it.entries) for it in member.to_log())


def lines(member: TableMember, of: str) -> list[str]:
    return [it.text for it in member.told(actions.LogLine) if of in it.text]


class TestTheRecord:
    def test_after_thirty_seconds_it_says_how_busy_the_member_is_and_with_what(self) -> None:
        member = member_at_work(seconds=29)
        assert reports(member) == []
        work(member, [HOT, *keys_in(WHOLE, 3)], 3)
        (told,) = reports(member)
        assert told is not None
        assert told.incarnation == 1
        assert told.workers == 1
        assert told.busy == pytest.approx(400, abs=20)
        assert told.handler_us == 20_000
        assert told.finished == pytest.approx(20, abs=1)
        ((topic_id, number, weight, pace),) = [
            (it.topic_id, it.partition, it.weight, it.pace) for it in told.partitions
        ]
        assert (topic_id, number) == (TOPIC_ID, 0)
        assert weight == pytest.approx(2 * 10**10, rel=0.01)
        assert pace == pytest.approx(20, abs=2)
        assert len(told.heavy) == 4
        hot = next(it for it in told.heavy if it.key_hash == key_hash(HOT))
        assert hot == HeavyKey(TOPIC_ID, 0, key_hash(HOT), hot.share, HOT)
        assert hot.share == pytest.approx(250, abs=30)

    def test_handlers_that_take_longer_than_a_report_are_busy_all_the_time(self) -> None:
        member = TableMember()
        work = member.core.lanes.work
        work.workers = 2
        begun_ms = member.core.state.now_ms
        work.running_s = lambda: (member.core.state.now_ms - begun_ms) / 1_000
        member.assign(WHOLE)
        member.produce(HOT)
        member.start()
        for _ in range(100):
            member.after(1_000)
        assert [it.busy for it in reports(member) if it] == [pytest.approx(500, abs=10)]
        member.finish_all()
        work.spent.append((100.0, 1, "t"))
        work.running_s = float
        for _ in range(70):
            member.after(1_000)
        last = reports(member)[-1]
        assert last is not None
        assert last.busy == 0

    def test_a_steady_load_is_told_once_and_a_change_is_told_again(self) -> None:
        member = member_at_work(keys=keys_in(WHOLE, 50), seconds=150)
        steady = len(reports(member))
        assert steady <= 2
        work(member, [HOT] * 3 + keys_in(WHOLE, 1), 60)
        assert len(reports(member)) > steady
        heavy = reports(member)[-1]
        assert heavy is not None
        assert heavy.heavy[0].key == HOT

    def test_keys_that_are_about_as_heavy_change_places_without_being_told(self) -> None:
        one, other = keys_in(WHOLE, 2)
        member = member_at_work(keys=[one, other], seconds=150)
        steady = len(reports(member))
        for turn in range(10):
            more, less = (one, other) if turn % 2 else (other, one)
            work(member, [more] * 11 + [less] * 9, 30)
        assert len(reports(member)) == steady

    @pytest.mark.parametrize(("factor", "is_told"), [(1.03, False), (1.08, True)])
    def test_what_has_changed_by_five_percent_is_told(self, factor: float, is_told: bool) -> None:
        member = member_at_work(keys=keys_in(WHOLE, 50), seconds=300)
        count = len(reports(member))
        for _ in range(300):  # handlers take longer by this, and nothing else changes
            member.produce(*keys_in(WHOLE, 20))
            done = len(member.finish_all())
            member.core.lanes.work.spent.append((0.02 * factor * done, done, "t"))
            member.after(1_000)
        assert (len(reports(member)) > count) is is_told

    def test_a_group_of_many_members_reports_within_the_budget_of_its_commits(self) -> None:
        member = member_at_work(commit_budget_records=50, seconds=1)
        member.core.state.membership.members = 3_000  # 50 a second: a record a member each minute
        before = log_entries(member)
        for keys in [[HOT], keys_in(WHOLE, 20)] * 25:  # something has changed each time
            work(member, keys, 30)
        assert 2 <= len(reports(member)) <= 3, "a tenth of the budget"
        assert 23 <= log_entries(member) - before <= 26, "25 minutes: commits come the later"

    def test_a_report_that_moves_counts_twice_in_the_budget(self) -> None:
        """It is cleared where it lay, and appended where it lies now."""
        member = member_at_work(commit_budget_records=50)
        member.core.state.membership.members = 3_000
        (view,) = member.core.state.views.values()
        schedule, it = view.schedule, member.core.loads
        schedule.earliest_ms = 0
        it._clear()
        it._report()
        assert schedule.earliest_ms == member.core.state.now_ms + 120_000
        assert min(schedule.due_ms, schedule.idle_due_ms) >= schedule.earliest_ms

    def test_another_capacity_is_told(self) -> None:
        """The lead counts by it what each member is due."""
        member = member_at_work(keys=keys_in(WHOLE, 50), seconds=150)
        count = len(reports(member))
        member.core.state.membership.capacity += 1
        work(member, keys_in(WHOLE, 20), 35)
        assert len(reports(member)) == count + 1

    def test_where_the_member_shows_itself_is_told_and_another_place_is_news(self) -> None:
        member = member_at_work(seconds=40)
        [first] = reports(member)
        member.core.state.tally.ops_address = "127.0.0.1:9464"
        work(member, [HOT, *keys_in(WHOLE, 3)], 31)
        last = reports(member)[-1]
        assert first is not None
        assert last is not None
        assert (first.ops_address, last.ops_address) == ("", "127.0.0.1:9464")

    def test_a_group_at_rest_tells_so_once_and_then_writes_nothing(self) -> None:
        member = member_at_work()
        for _ in range(90):
            member.after(1_000)
        at_rest = reports(member)[-1]
        assert at_rest is not None
        assert (at_rest.busy, at_rest.finished) == (0, 0)
        count = len(member.to_log())
        for _ in range(600):
            member.after(1_000)
        assert len(member.to_log()) == count

    def test_a_member_that_leaves_clears_it(self) -> None:
        member = member_at_work()
        assert store(member).loads
        member.tell(events.Close())
        member.after(1_000)
        assert reports(member)[-1] is None
        assert reports(member).count(None) == 1
        assert not store(member).loads
        assert member.told(actions.Leave)

    def test_a_member_that_has_nothing_any_more_clears_it(self) -> None:
        member = member_at_work()
        member.assign()
        for _ in range(REPORT_MS // 1_000):
            member.after(1_000)
        assert not store(member).loads

    def test_the_lead_clears_those_of_members_that_are_gone(self) -> None:
        gone = member_at_work(LOW, keys=keys_in(LOW, 4))
        assert set(store(gone).loads) == {"m1"}
        lead = TableMember("m2", log=gone.log, incarnation=2)
        lead.assign(LOW, live=("m2",))
        lead.now_ms = gone.now_ms
        for _ in range(40):
            lead.hear_log()
            lead.after(1_000)
        assert "m1" not in store(lead).loads

    def test_it_lies_where_the_lead_of_split_partitions_reads(self) -> None:
        """Nobody follows the log of a partition that is one member's."""

        def held(name: str, *ranges: KeyRange) -> SimpleNamespace:
            tenure = SimpleNamespace(begun=True, ranges=ranges)
            return SimpleNamespace(tenures=[tenure], view=name, assigned=ranges)

        whole, split = held("of t-0", WHOLE), held("of t-1", LOW)
        partitions = {T0: whole, TopicPartition("t", 1): split}
        it: Any = SimpleNamespace(partitions=partitions)
        told: Any = loads.Loads(it, it)
        assert told._place() == "of t-1"
        told._view = whole.view
        assert told._place() == "of t-0", "it stays where it is, as long as that is ours"
        del partitions[T0], partitions[TopicPartition("t", 1)]
        assert told._place() is None

    def test_a_record_that_was_not_taken_is_sent_with_the_next_report(self) -> None:
        member = member_at_work(seconds=29)
        member.kept_back = {actions.Append}
        work(member, [HOT], 3)
        (append,) = [it for it in member.unanswered if isinstance(it, actions.Append)]
        member.kept_back, member.unanswered = set(), []
        member.tell(events.AppendFailed(append.token, BrokerUnreachableError("b:1", "gone")))
        work(member, [HOT], 31)
        assert len(reports(member)) == 2

    def test_it_is_cut_to_what_the_log_takes(self) -> None:
        heavy = tuple(HeavyKey(TOPIC_ID, n, n, 100, b"k" * 64) for n in range(4))
        parts = tuple(PartitionLoad(TOPIC_ID, n, 10**9, 1_000) for n in range(64))
        record = LoadRecord(1, 2, 3, 4, 5, 6, parts, heavy)
        assert loads._fitting(record, 10_000) == encode_value(record)
        for bytes_max in (40, 250, 480, 1_000):
            fitting = loads._fitting(record, bytes_max)
            assert fitting is not None
            assert len(fitting) <= bytes_max
        assert loads._fitting(record, 5) is None

    def test_a_member_without_a_group_tells_none(self) -> None:
        member = TableMember()
        member.tell(events.AssignAlone({T0: (WHOLE,)}))
        work(member, [HOT], 65)
        assert reports(member) == []

    def test_a_snapshot_has_it(self) -> None:
        member = member_at_work(seconds=10)
        load = member.core.snapshot().load
        assert load.handler_us == 20_000
        assert load.finished == pytest.approx(20, abs=4)
        assert [it.partition for it in load.partitions] == [0]


def store(member: TableMember) -> ProgressStore:
    found = ProgressStore(GROUP)
    for record in member.log.read(0, max_records=100_000).records:
        found.apply(record)
    return found


class TestClaims:
    def test_a_claim_has_the_load_of_what_it_holds(self) -> None:
        member = member_at_work()
        (claim,) = member.core.claims_held()
        assert claim.load is not None
        weights = [*claim.load.bins, *(it.weight for it in claim.load.heavy)]
        assert sum(weights) == pytest.approx(2 * 10**10, rel=0.01)
        assert claim.load.pace == pytest.approx(20, abs=2)

    def test_a_share_weighs_what_it_has_of_the_partition(self) -> None:
        inside, outside = keys_in(LOW, 3), keys_in(HIGH, 1)
        member = member_at_work(LOW, keys=[*inside, *outside])
        (claim,) = member.core.claims_held()
        assert claim.load is not None
        weights = [*claim.load.bins, *(it.weight for it in claim.load.heavy)]
        assert sum(weights) == pytest.approx(1.5 * 10**10, rel=0.02)

    def test_what_drains_has_none(self) -> None:
        member = member_at_work()
        member.produce(*keys_in(HIGH, 2))
        member.start()
        member.assign(LOW)
        claims = member.core.claims_held()
        assert {claim.draining for claim in claims} == {True, False}
        for claim in claims:
            assert (claim.load is None) == claim.draining
            assert claim.load is None or all(it.key_hash in LOW for it in claim.load.heavy)

    def test_what_has_just_begun_has_none(self) -> None:
        member = TableMember()
        member.assign(WHOLE)
        assert [claim.load for claim in member.core.claims_held()] == [None]
        assert decode_subscription(member.core.subscription()).claims[0].ranges == (WHOLE,)

    def test_what_others_have_done_is_no_load_and_does_not_make_it_light(self) -> None:
        """Where inherited facts lie ahead, only some records are left to run."""
        first = member_at_work(keys=keys_in(WHOLE, 10), seconds=2)
        first.produce(b"slow")
        first.start()
        first.produce(*keys_in(WHOLE, 10) * 10)
        first.start()
        while others := [offset for key, offset in first.running if key != b"slow"]:
            first.finish(min(others))
            first.start()
        first.after(5_000)
        second = TableMember("m2", log=first.log, incarnation=2, committed=first.committed)
        second.messages = first.messages
        second.core.lanes.work.spent.append((0.02, 1, "t"))
        second.assign(WHOLE)
        second.fetch()
        tenure = second.core.state.partitions[T0].tenures[0]
        assert list(tenure.pending) == [40]
        assert not tenure.load.is_known
        for _ in range(4):
            second.after(1_000)
            second.produce(*keys_in(WHOLE, 20))
        assert tenure.load.rate == 1.0


class TestBusyKeys:
    def watch(self, member: TableMember, seconds: float, *, busy: bool = True) -> None:
        """The hot key's lane runs, with more behind, or waits, at each look."""
        for _ in range(int(seconds * 4)):
            lane = member.core.lanes.tables.of(T0)[HOT]
            assert isinstance(lane, Lane)
            if busy and not member.running:
                member.start()
            member.after(250)

    def hot(self, others: int = 1, **settings: object) -> TableMember:
        """A member with a hot key; five records of it wait."""
        keys = [HOT, *keys_in(WHOLE, others)]
        member = member_at_work(keys=keys, seconds=12, **settings)
        member.core.lanes.work.workers = 16
        member.produce(*[HOT] * 6)
        member.start()
        return member

    def test_it_is_named_once_a_minute_with_how_many_can_be_busy(self) -> None:
        member = self.hot()
        self.watch(member, WINDOW_MS / 1_000 + 1)
        (line,) = lines(member, "one key")
        assert line == (
            "t-0: one key (N14228) is 51 % of the work and runs on one worker; at most 2.0 can be "
            "busy there. More workers or members will hardly help: make its handler quicker, or "
            "split the key."
        )
        heavy = {it.key: it.is_busy for it in member.core.snapshot().load.heavy}
        assert heavy.pop(HOT)
        assert not any(heavy.values())
        self.watch(member, 45)
        assert len(lines(member, "one key")) == 1
        self.watch(member, AGAIN_MS / 1_000)
        assert len(lines(member, "one key")) == 2

    def test_a_key_whose_lane_was_empty_once_is_not_named(self) -> None:
        member = self.hot()
        for _ in range(4):
            self.watch(member, 8)
            assert not any(it.is_busy for it in member.core.snapshot().load.heavy)
            while member.running:
                member.finish_all()
            member.after(250)
            member.produce(*[HOT] * 6)
            member.start()
        assert lines(member, "one key") == []

    def test_a_key_that_waits_for_a_worker_is_not_named(self) -> None:
        """It is not at its limit: more workers would help."""
        member = member_at_work(keys=[HOT, *keys_in(WHOLE, 1)], seconds=12)
        member.core.lanes.work.workers = 16
        member.produce(*[HOT] * 6)
        for _ in range(100):
            member.after(250)
        assert lines(member, "one key") == []

    def test_a_record_that_takes_long_is_not_named_if_nothing_waits_behind_it(self) -> None:
        member = self.hot()
        last = len(member.messages) - 1
        while (HOT, last) not in member.running:
            member.finish(min(offset for _, offset in member.running))
        self.watch(member, 2 * WINDOW_MS / 1_000)
        assert lines(member, "one key") == []

    def test_a_member_that_hardly_looks_names_none(self) -> None:
        """Its thread may be held up: of ten looks chance makes a busy key."""
        member = self.hot()
        for _ in range(30):
            member.after(1_000)
        assert lines(member, "one key") == []
        self.watch(member, WINDOW_MS / 1_000 + 1)
        assert len(lines(member, "one key")) == 1

    def test_of_a_share_it_says_that_it_is_one(self) -> None:
        hot, other = keys_in(LOW, 2)
        member = member_at_work(LOW, keys=[hot, other], seconds=12)
        member.core.lanes.work.workers = 16
        member.produce(*[hot] * 6)
        member.start()
        for _ in range(50):
            member.after(250)
        (line,) = lines(member, "one key")
        assert " % of the work that this member has of it and runs on one worker; " in line

    @pytest.mark.parametrize(("every", "times"), [(6, 1), (4, 0), (3, 0)])
    def test_it_may_wait_for_its_turn_now_and_then(
        self, monkeypatch: pytest.MonkeyPatch, every: int, times: int
    ) -> None:
        """Beside others that keep all workers busy, it waits between two of its records.

        It is named from 80 % of the looks on (decision 072).
        """
        looks, at = count(), BusyKeys._at

        def in_turns(it: BusyKeys, tenure: Tenure, key_hash: int) -> tuple[bool, bool]:
            waits, runs = at(it, tenure, key_hash)
            return waits, runs and next(looks) % every > 0

        member = self.hot()
        monkeypatch.setattr(BusyKeys, "_at", in_turns)
        self.watch(member, WINDOW_MS / 1_000 + 1)
        assert len(lines(member, "one key")) == times

    def test_where_all_workers_can_be_busy_it_is_not_named(self) -> None:
        member = self.hot(others=40)
        member.core.lanes.work.workers = 4
        self.watch(member, 25)
        assert lines(member, "one key") == []

    @pytest.mark.parametrize(
        ("keys", "expected"),
        [
            ("text", " (N14228) "),
            ("hash", f" (hash {key_hash(HOT)}) "),
            ("none", " "),
        ],
    )
    def test_it_is_named_as_log_keys_allows(self, keys: str, expected: str) -> None:
        member = self.hot(log_keys=keys)
        self.watch(member, WINDOW_MS / 1_000 + 1)
        (line,) = lines(member, "one key")
        assert line.startswith(f"t-0: one key{expected}is ")
        for _ in range(30):
            member.after(1_000)
        told = reports(member)[-1]
        assert told is not None
        shown = {it.key for it in told.heavy}
        assert shown == ({HOT, *keys_in(WHOLE, 1)} if keys == "text" else {None})
        for it in member.told(actions.LogLine):
            assert keys == "text" or "N14228" not in it.text


def test_a_name_of_a_key_is_short_and_harms_no_terminal() -> None:
    assert named(LogKeys.TEXT, b"\x1b[2J\xff\n", 5) == r" (\x1b[2J\xff\n)"
    assert named(LogKeys.TEXT, b"k" * 65, 5) == f" ({'k' * 64}...)"
    assert named(LogKeys.TEXT, None, 5) == " (no key)"
    assert named(LogKeys.TEXT, None, 5, known=False) == " (hash 5)"


class TestOlderMembers:
    """What a member that knows no loads makes of their keys."""

    def test_it_takes_them_for_another_groups(self) -> None:
        key = LoadKey(GROUP, "m1")
        as_it_was = encode_key(AnnounceKey(f"{GROUP}\0load", "m1"))
        assert encode_key(key) == as_it_was
        assert decode_key(as_it_was) == key

    def test_loads_are_folded_and_counted_as_nothing_else(self) -> None:
        found, member = store(member_at_work()), "m1"
        assert found.unreadable == {}
        offset, record = found.loads[member]
        assert found.loads_gone({member}, offset + 1) == ()
        assert found.loads_gone(set(), offset) == ()
        assert found.loads_gone(set(), offset + 1) == (LoadKey(GROUP, member),)
        later = encode_value(record) + b"a field of a later release"
        assert decode_value(LoadKey(GROUP, member), later) == record
