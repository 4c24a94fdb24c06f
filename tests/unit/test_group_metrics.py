"""A group's status by numbers: what stands, who has what, and nothing where nothing is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignors import WHOLE, TopicPartition
from coop_consumer.ops.group_metrics import FirstSeen, GroupLook, group_samples
from coop_consumer.ops.metric import MetricSection
from coop_consumer.ops.table import TABLE, rows_in
from coop_consumer.status.load import GroupLoad, KeyWork
from coop_consumer.status.model import (
    GroupStatus,
    PartitionStatus,
    PendingHandover,
    RecordStatus,
)
from coop_consumer.status.open_transaction import OpenTransaction
from coop_consumer.status.remaining import Remaining
from coop_consumer.status.scale import ScaleAdvice
from coop_consumer.status.seen import MemberSeen
from coop_consumer.status.standing import RecordState
from offsets import Meaning, OffsetRange, TenureId

NOW_MS = 1_000_000
T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
LOW, HIGH = WHOLE.parts(2)

HOLDER = RecordStatus(
    offset=43,
    key=b"customer-7",
    is_read=True,
    key_hash=7,
    timestamp_ms=NOW_MS - 60_000,
    attempts=2,
    is_parked=False,
    error="no route",
    since_ms=NOW_MS - 30_000,
    member="m1",
    host="h",
    standing_since_ms=NOW_MS - 20_000,
)
PARTITION = PartitionStatus(
    tp=T0,
    epoch=1,
    next_epoch=2,
    meaning=Meaning.AGREED,
    begin=0,
    end=100,
    floor=0,
    stable=43,
    committed=43,
    metadata="",
    lag=57,
    remaining=Remaining(known=40, estimated=0),
    gaps=(OffsetRange(44, 50),),
    progress=(),
    owners=(),
    unowned=(HIGH,),
    handovers=(),
    holder=HOLDER,
    failed=(HOLDER, replace(HOLDER, offset=60, is_parked=True)),
    hidden=5,
)
EMPTY = replace(
    PARTITION,
    tp=T1,
    end=0,
    stable=None,
    committed=None,
    lag=None,
    remaining=Remaining(known=0, estimated=0),
    gaps=(),
    unowned=(WHOLE,),
    holder=None,
    failed=(),
    hidden=0,
)
STATUS = GroupStatus(
    group="billing",
    state="Stable",
    protocol="coop",
    at_ms=NOW_MS,
    members=(
        MemberSeen("m1", "h", capacity=4, ranges={T0: (LOW,)}),
        MemberSeen("m2", "h", capacity=4),
        MemberSeen("m3", "h", ranges={T0: (WHOLE,)}),
        MemberSeen("m4", "h", note="cannot be read: version 9"),
    ),
    partitions=(PARTITION, EMPTY),
    unreadable={"corrupt value": 2},
    warnings=(),
    load=GroupLoad(keys=(KeyWork(T0, 7, b"customer-7", 0.6, "m1"),)),
    open_transactions=(OpenTransaction(T0, 70, 100, "b:9092", since_ms=NOW_MS - 5_000),),
)
ADVICE = ScaleAdvice(
    members=4,
    wanted=6,
    useful=9,
    reason="",
    left=40,
    arrivals=3.0,
    busy_workers=5.0,
    workers=4.0,
    handler_us=1_000,
    is_assumed=False,
)


def look(status: GroupStatus | None = STATUS, advice: ScaleAdvice | None = ADVICE) -> GroupLook:
    return GroupLook("billing", 0.2, 50.0, status, advice)


def samples(
    status: GroupStatus | None = STATUS,
    advice: ScaleAdvice | None = ADVICE,
    seen: FirstSeen | None = None,
) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for it in group_samples(look(status, advice), 53.0, seen or FirstSeen()):
        place = (it.name.removeprefix("coop_group_"), *it.labels[1:])
        assert it.labels[0] == "billing"
        assert isinstance(it.value, int | float)
        assert it.value == it.value, "NaN"
        assert place not in found
        found[place] = float(it.value)
    return found


def test_every_row_has_a_sample_and_every_sample_a_row() -> None:
    found = samples()

    assert {f"coop_group_{name}" for name, *_ in found} == {
        row.name for row in rows_in(MetricSection.GROUP)
    }
    for name, *labels in found:
        assert len(labels) + 1 == len(TABLE[f"coop_group_{name}"].labels)


def test_a_look_says_how_long_it_took_how_old_it_is_and_what_it_could_not_read() -> None:
    found = samples()

    assert (found["up",], found["look_seconds",], found["look_age_seconds",]) == (1, 0.2, 3.0)
    assert found["log_unreadable", "corrupt value"] == 2
    assert (found["wanted_members",], found["useful_members",]) == (6, 9)


def test_a_partition_says_where_it_stands() -> None:
    found = samples()
    place = ("orders", "0")

    assert found["stable_offset", *place] == 43
    assert found["end_offset", *place] == 100
    assert found["committed_offset", *place] == 43
    assert found["lag", *place] == 57
    assert found["records_left", *place] == 40
    assert found["gap_ranges", *place] == 1
    assert found["readable_offset", *place] == 95
    assert found["blocked_seconds", *place] == 30
    assert found["holder_parked", *place] == 0
    assert found["oldest_record_seconds", *place] == 60
    assert found["parked_records", *place] == 1
    assert found["failing_records", *place] == 1


def test_what_is_not_known_is_left_out() -> None:
    found = samples()
    place = ("orders", "1")

    for name in ("stable_offset", "committed_offset", "lag"):
        assert (name, *place) not in found
    assert found["end_offset", *place] == 0
    assert found["blocked_seconds", *place] == 0
    assert found["oldest_record_seconds", *place] == 0


@pytest.mark.parametrize(
    ("since_ms", "standing_since_ms", "blocked_s"),
    [
        pytest.param(NOW_MS - 900_000, NOW_MS - 60_000, 900, id="it fails, and backs off for 60 s"),
        pytest.param(NOW_MS - 5_000, NOW_MS - 400_000, 400, id="it ran for long before it failed"),
        pytest.param(0, NOW_MS - 20_000, 20, id="it runs for the first time"),
        pytest.param(NOW_MS - 30_000, 0, 30, id="its owner says nothing, or there is none"),
    ],
)
def test_a_record_holds_the_stable_offset_since_the_earliest_that_is_known(
    since_ms: int, standing_since_ms: int, blocked_s: float
) -> None:
    holder = replace(HOLDER, since_ms=since_ms, standing_since_ms=standing_since_ms)
    found = samples(replace(STATUS, partitions=(replace(PARTITION, holder=holder),)))

    assert found["blocked_seconds", "orders", "0"] == blocked_s


LEFT = replace(HOLDER, attempts=0, since_ms=0, standing_since_ms=0, standing=RecordState.UNOWNED)
"""A record of a group without members: nobody says since when it stands."""
HANDOVER = PendingHandover((LOW,), "m2", "m1", TenureId("m1", 1, 1), 0)
UNDECIDED = replace(STATUS.open_transactions[0], since_ms=0)


def standing(at_ms: int, **changes: object) -> GroupStatus:
    """A group in which something stands, and nobody says since when."""
    partition = replace(PARTITION, holder=LEFT, handovers=(HANDOVER,))
    partition = replace(partition, **changes)  # type: ignore[arg-type]
    partitions, undecided = (partition, EMPTY), (UNDECIDED,)
    return replace(STATUS, at_ms=at_ms, partitions=partitions, open_transactions=undecided)


def blocked_s(seen: FirstSeen, status: GroupStatus) -> float | None:
    """How long a record has held the stable offset, once this look was taken, too."""
    seen.note(look(status))
    return samples(status, seen=seen).get(("blocked_seconds", "orders", "0"))


def test_a_time_that_is_not_known_is_left_out() -> None:
    found = samples(standing(NOW_MS))

    assert ("blocked_seconds", "orders", "0") not in found
    assert ("handover_seconds",) not in found
    assert ("undecided_seconds", "orders") not in found
    unread = samples(replace(STATUS, partitions=(replace(PARTITION, holder=None),)))
    assert ("blocked_seconds", "orders", "0") not in unread


def test_where_nobody_says_since_when_it_counts_since_when_it_is_seen() -> None:
    """A dead group with records left never fired CoopStuckKey: its figure was 0."""
    seen = FirstSeen()
    for at_ms in range(NOW_MS, NOW_MS + 1_000_000, 10_000):
        assert blocked_s(seen, standing(at_ms)) == (at_ms - NOW_MS) / 1_000
    seen.note(look(None, None))  # no broker answers for once
    last = standing(NOW_MS + 1_200_000)
    assert blocked_s(seen, last) == 1_200, "above 900"
    found = samples(last, seen=seen)
    assert found["handover_seconds",] == found["undecided_seconds", "orders"] == 1_200


def test_another_record_and_the_same_one_after_a_reset_stand_anew() -> None:
    seen = FirstSeen()
    seen.note(look(standing(NOW_MS)))
    begun = {"holder": replace(LEFT, offset=44)}
    assert blocked_s(seen, standing(NOW_MS + 10_000, **begun)) == 0
    assert blocked_s(seen, standing(NOW_MS + 20_000, **begun)) == 10
    assert blocked_s(seen, standing(NOW_MS + 30_000, **begun, epoch=2)) == 0


def test_the_earliest_counts_of_what_is_said_and_what_is_seen() -> None:
    seen = FirstSeen()
    seen.note(look(standing(NOW_MS)))
    for since_ms, blocked in ((NOW_MS - 60_000, 70), (NOW_MS + 5_000, 10)):
        told = replace(LEFT, standing=RecordState.RUNNING, standing_since_ms=since_ms)
        assert blocked_s(seen, standing(NOW_MS + 10_000, holder=told)) == blocked


def test_only_a_holder_that_is_itself_parked_is_said_to_be() -> None:
    parked = replace(HOLDER, is_parked=True)
    found = samples(replace(STATUS, partitions=(replace(PARTITION, holder=parked), EMPTY)))

    assert samples()["parked_records", "orders", "0"] == 1
    assert samples()["holder_parked", "orders", "0"] == 0
    assert found["holder_parked", "orders", "0"] == 1
    assert found["holder_parked", "orders", "1"] == 0


@pytest.mark.parametrize(
    "holder", [None, replace(HOLDER, timestamp_ms=-1)], ids=["not read", "no timestamp"]
)
def test_an_age_that_is_not_known_is_left_out(holder: RecordStatus | None) -> None:
    status = replace(STATUS, partitions=(replace(PARTITION, holder=holder),))

    assert ("oldest_record_seconds", "orders", "0") not in samples(status)


def test_a_clock_that_is_ahead_makes_no_negative_time() -> None:
    later_ms = NOW_MS + 3_600_000
    ahead = replace(HOLDER, timestamp_ms=later_ms, since_ms=later_ms, standing_since_ms=later_ms)
    found = samples(replace(STATUS, partitions=(replace(PARTITION, holder=ahead),)))

    assert found["blocked_seconds", "orders", "0"] == 0
    assert found["oldest_record_seconds", "orders", "0"] == 0


def test_members_are_counted_by_what_they_do() -> None:
    found = samples()

    assert {state: found["members", state] for name, *rest in found if name == "members"
            for state in rest} == {
        "working": 1, "waiting": 0, "idle": 1, "joining": 0, "plain": 1, "unreadable": 1,
    }  # fmt: skip


def test_while_a_group_rebalances_nobody_knows_what_its_members_are() -> None:
    found = samples(replace(STATUS, state="PreparingRebalance"))

    assert found["members", "joining"] == 4
    assert found["members", "plain"] == 0


def test_while_a_group_rebalances_only_its_unowned_share_is_left_out() -> None:
    nobodys = replace(HOLDER, member="", standing=RecordState.UNOWNED, standing_since_ms=0)
    partition = replace(PARTITION, holder=nobodys, unowned=(WHOLE,))
    found = samples(replace(STATUS, state="PreparingRebalance", partitions=(partition, EMPTY)))

    assert set(samples()) - set(found) == {("unowned_share", "orders")}
    assert found["blocked_seconds", "orders", "0"] == 30


def test_a_handover_lasts_since_its_assignment() -> None:
    pending = replace(HANDOVER, since_ms=NOW_MS - 12_000)
    status = replace(STATUS, partitions=(replace(PARTITION, handovers=(pending, HANDOVER)),))
    found = samples(status)

    assert found["handover_seconds",] == 12
    assert found["members", "waiting"] == 1


def test_topics_have_their_unowned_share_their_heaviest_key_and_their_transactions() -> None:
    found = samples()

    assert found["unowned_share", "orders"] == pytest.approx(0.75)
    assert found["top_key_share", "orders"] == 0.6
    assert found["undecided_seconds", "orders"] == 5


def test_without_members_everything_is_there_but_members() -> None:
    found = samples(replace(STATUS, state="Empty", members=(), load=GroupLoad()))

    assert all(found["members", it] == 0 for it in ("working", "idle", "plain"))
    assert found["records_left", "orders", "0"] == 40
    assert found["unowned_share", "orders"] == pytest.approx(0.75)
    assert found["top_key_share", "orders"] == 0


def test_no_limit_of_useful_members_is_no_number() -> None:
    found = samples(advice=replace(ADVICE, useful=None))

    assert found["wanted_members",] == 6
    assert ("useful_members",) not in found


def test_a_look_that_failed_says_only_that() -> None:
    assert samples(None, None) == {("up",): 0, ("look_seconds",): 0.2, ("look_age_seconds",): 3.0}


def test_a_group_without_partitions_is_a_group() -> None:
    found = samples(replace(STATUS, partitions=(), load=GroupLoad(), open_transactions=()))

    assert found["up",] == 1
    assert found["handover_seconds",] == 0


def test_a_group_of_2000_partitions_is_shown_whole() -> None:
    many = tuple(replace(PARTITION, tp=TopicPartition("orders", number)) for number in range(2_000))
    found = samples(replace(STATUS, partitions=many))

    assert sum(name == "stable_offset" for name, *_ in found) == 2_000
    assert found["unowned_share", "orders"] == pytest.approx(0.5)
