"""The progress record says what becomes of records that stand for long, for `status`."""

from __future__ import annotations

from assignors import WHOLE, key_hash
from coop_consumer.core import events
from offsets import (
    Act,
    Doing,
    TenureId,
    TenureKey,
    TenureRecord,
    decode_value,
    encode_value,
    split_record,
)
from tests.unit.core_member import T0, TO_LOG, TableMember


def told(member: TableMember) -> dict[int, tuple[Act, int]]:
    """What the log says of unfinished records: by offset, what becomes of them, since when."""
    member.after(200)  # the commit
    return {
        doing.offset: (doing.act, doing.since_ms)
        for tenure in member.store.tenures()
        for doing in tenure.record.doings
    }


def at_work(*keys: bytes, **settings: object) -> TableMember:
    member = TableMember(attempt_backoff_ms=60_000, attempt_backoff_max_ms=60_000, **settings)
    member.assign(WHOLE)
    member.produce(*keys)
    member.after(2_000)
    return member


def test_what_has_stood_for_a_look_waits_for_a_worker_or_runs_and_says_since_when() -> None:
    member = at_work(b"a", b"b")
    began_ms = member.now_ms
    assert told(member) == {}
    member.after(2_000)
    assert told(member) == {0: (Act.QUEUED, began_ms)}
    member.start()
    member.after(2_000)
    runs_since_ms = member.now_ms
    assert told(member) == {0: (Act.RUNS, runs_since_ms)}
    member.after(4_000)
    assert told(member) == {0: (Act.RUNS, runs_since_ms)}
    member.finish(0)
    assert told(member) == {}
    assert member.store.progress().stable == 1


def test_of_a_key_with_a_lane_it_is_the_record_at_which_the_handler_is() -> None:
    member = at_work(b"a", b"a", b"a")
    member.start()
    member.finish(0)
    for _ in range(3):
        member.after(2_000)
    assert {at: act for at, (act, _) in told(member).items()} == {1: Act.RUNS}


def test_a_failed_record_backs_off_and_is_parked_at_last() -> None:
    member = at_work(b"a", b"b", max_attempts=2)
    member.start()
    member.fail(1)
    member.after(2_000)
    assert told(member)[1][0] is Act.BACKS_OFF
    member.after(60_000)
    member.start()
    member.after(2_000)
    assert told(member)[1][0] is Act.RUNS
    member.fail(1)
    member.after(2_000)
    acts = told(member)
    assert acts[1][0] is Act.PARKED
    assert acts[0][0] is Act.RUNS
    assert acts[1][1] > acts[0][1]


def test_a_paused_partition_says_so() -> None:
    member = at_work(b"a", b"b")
    member.start()
    member.tell(events.Pause(1, [T0]))
    member.finish(0)
    for _ in range(3):
        member.after(2_000)
    assert [act for act, _ in told(member).values()] == [Act.PAUSED]
    member.tell(events.Resume(2, [T0]))
    member.after(2_000)
    assert told(member) == {}


def test_who_gets_on_writes_nothing_of_it() -> None:
    member = at_work(*[b"k%d" % i for i in range(20)])
    for offset in range(20):
        member.start()
        member.finish(offset)
        member.after(2_000)
        assert told(member) == {}


def test_a_record_without_doings_is_what_earlier_members_wrote_and_read() -> None:
    record = TenureRecord(1, -1, ())
    with_one = TenureRecord(1, -1, (), doings=(Doing(7, key_hash(b"a"), Act.RUNS, 1),))
    plain = encode_value(record)
    assert encode_value(with_one)[: len(plain)] == plain
    assert split_record(with_one, 1_000) == (with_one,)


def test_what_a_newer_member_says_is_unknown_and_costs_none_of_its_progress() -> None:
    record = TenureRecord(1, -1, (), doings=(Doing(7, 5, Act.PAUSED, 1),))
    data = bytearray(encode_value(record))
    data[-2] = 99  # the act stands before the time
    found = decode_value(TenureKey("g", bytes(16), 0, TenureId("m", 1, 1)), bytes(data))
    assert isinstance(found, TenureRecord)
    assert found.doings[0].act is Act.UNKNOWN


def test_a_paused_partition_whose_release_is_under_way_has_nothing_to_be_said_of() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a")
    member.finish_all()
    member.tell(events.Pause(1, [T0]))
    member.kept_back = set(TO_LOG)
    member.assign()
    for _ in range(10):
        member.after(1_000)
    assert list(member.core.state.partitions[T0].draining)
