"""What a user of `CooperativeConsumer` is promised, on a real broker."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from assignors import KEY_HASH_MAX, WHOLE, KeyRange, TopicPartition, key_hash, union
from coop_consumer import CommittedOffset, CooperativeConsumer, RangeListener, Record
from coop_consumer.errors import (
    ConfigError,
    ConsumerRangeFetchNotAcceptedError,
    ForeignProtocolError,
    IndividualCommitNotAllowedError,
    MisuseError,
    ProcessingStoppedError,
    TopicMissingError,
    WorkerCallbackError,
)
from offsets import OffsetRange
from tests.support.brokers import MakeTopic
from tests.support.journal import WAIT_S
from tests.support.stock import committed, eventually, keys_of, produce

pytestmark = pytest.mark.integration

LOW = KeyRange(0, KEY_HASH_MAX // 2 - 1)
HIGH = KeyRange(KEY_HASH_MAX // 2, KEY_HASH_MAX)
QUIET_S = 0.5
"""Long enough for whatever should not come: a fetch takes a few milliseconds."""

Open = Callable[..., CooperativeConsumer]


@pytest.fixture
def settings(bootstrap: str) -> dict[str, str]:
    return {"bootstrap.servers": bootstrap}


@pytest.fixture
def opened(settings: Mapping[str, str], group_id: str, topic: MakeTopic) -> Iterator[Open]:
    """Make consumers of the test's group; closed after the test, before its topics are deleted."""
    del topic  # only its end has to come later than ours
    with ExitStack() as consumers:

        def make(**changed: object) -> CooperativeConsumer:
            named = {name.replace("_", "."): value for name, value in changed.items()}
            config = {**settings, "group.id": group_id, "auto.offset.reset": "earliest", **named}
            return consumers.enter_context(CooperativeConsumer(config))

        yield make


def poll_some(consumer: CooperativeConsumer, count: int) -> list[Record]:
    """Exactly so many records; they are left in hand."""
    records: list[Record] = []
    while len(records) < count:
        record = consumer.poll(WAIT_S)
        assert record is not None, f"only {len(records)} of {count} records came"
        records.append(record)
    return records


def finish_some(consumer: CooperativeConsumer, count: int) -> list[Record]:
    """So many records, each done as it comes."""
    records = []
    for _ in range(count):
        [record] = poll_some(consumer, 1)
        consumer.done(record)
        records.append(record)
    return records


def offsets_of(records: Sequence[Record]) -> list[int]:
    return [record.offset for record in records]


def wait_for_ranges(consumer: CooperativeConsumer) -> dict[TopicPartition, tuple[KeyRange, ...]]:
    """Poll, as the listener is called there, until something is assigned."""
    return eventually(lambda: (consumer.poll(0), consumer.assignment())[1])


def test_only_what_was_not_done_comes_again_after_a_restart(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    tp = TopicPartition(orders, 0)
    produce(settings, orders, keys_of(300, 300))
    first = opened()
    first.subscribe([orders])
    for record in poll_some(first, 300):
        if record.offset % 3 == 0:
            first.done(record)
    assert first.commit(WAIT_S) == {tp: 1}
    gaps = tuple(OffsetRange(offset, offset) for offset in range(3, 300, 3))
    assert first.committed([tp], WAIT_S) == {tp: CommittedOffset(1, gaps)}
    first.close()

    second = opened()
    second.subscribe([orders])
    again = finish_some(second, 200)
    assert sorted(offsets_of(again)) == [offset for offset in range(300) if offset % 3]
    assert second.commit(WAIT_S) == {tp: 300}
    assert second.poll(QUIET_S) is None
    assert second.committed([tp], WAIT_S) == {tp: CommittedOffset(300)}
    assert second.position([tp]) == {tp: 300}


def test_two_consumers_share_a_partition_by_key(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    tp = TopicPartition(orders, 0)
    consumers = opened(), opened()
    for consumer in consumers:
        consumer.subscribe([orders])
    held = eventually(
        lambda: [(one.poll(0), one.assignment().get(tp, ()))[1] for one in consumers],
        lambda found: all(found) and union([*found[0], *found[1]]) == (WHOLE,),
    )
    produce(settings, orders, keys_of(400, 50))
    for consumer, ranges in zip(consumers, held, strict=True):
        due = sum(any(key_hash(key.encode()) in r for r in ranges) for key in keys_of(400, 50))
        mine = finish_some(consumer, due)
        assert consumer.poll(QUIET_S) is None
        by_key: dict[bytes | None, list[int]] = {}
        for record in mine:
            assert any(record.key_hash in r for r in ranges)
            by_key.setdefault(record.key, []).append(record.offset)
        assert all(offsets == sorted(offsets) for offsets in by_key.values()), "I4: out of order"
        consumer.commit(WAIT_S)
    assert consumers[0].committed([tp], WAIT_S) == {tp: CommittedOffset(400)}


def refuses(consumer: CooperativeConsumer, stranger: Any, told: str) -> None:
    """Neither `done` nor `failed` takes what was never in hand."""
    with pytest.raises(MisuseError, match=told):
        consumer.done(stranger)
    with pytest.raises(MisuseError, match=told):
        consumer.failed(stranger, ValueError("no route"))


def test_a_key_is_blocked_until_its_record_is_done(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    produce(settings, orders, ["a", "a", "b"])
    consumer = opened()
    consumer.subscribe([orders])
    first, other = poll_some(consumer, 2)
    assert (first.key, other.key) == (b"a", b"b")
    assert consumer.poll(QUIET_S) is None
    refuses(consumer, None, "None is no record")
    pickled = pickle.loads(pickle.dumps(first))  # noqa: S301 - our own
    refuses(consumer, pickled, "@0, .* is a copy")
    refuses(consumer, copy(first), "@0, .* is a copy")
    consumer.done(first)
    assert poll_some(consumer, 1)[0].offset == 1
    assert consumer.consume(10, QUIET_S) == []
    with pytest.raises(MisuseError, match="@0 is not in hand"):
        consumer.done(first)


def test_a_failed_record_comes_again_and_is_parked_at_last(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    tp = TopicPartition(orders, 0)
    produce(settings, orders, ["a", "a", "b"])
    consumer = opened(max_attempts=2, attempt_backoff_ms=10, attempt_backoff_max_ms=20)
    consumer.subscribe([orders])
    first, other = poll_some(consumer, 2)
    consumer.done(other)
    consumer.failed(first, ValueError("no price"))
    [again] = poll_some(consumer, 1)
    assert (again.offset, again.attempt) == (0, 2)
    consumer.failed(again, ValueError("no price"))
    assert consumer.poll(QUIET_S) is None, "its key waits for a decision"
    assert consumer.commit(WAIT_S) == {tp: 0}
    [known] = consumer.committed([tp], WAIT_S).values()
    assert known == CommittedOffset(0, (OffsetRange(2, 2),))


def test_a_decision_to_stop_is_raised_by_poll(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    produce(settings, orders, ["a", "b"])
    consumer = opened(max_attempts=1, on_failure="stop")
    consumer.subscribe([orders])
    first, other = poll_some(consumer, 2)
    consumer.failed(first, ValueError("no price"))
    with pytest.raises(ProcessingStoppedError, match="no price"):
        consumer.poll(WAIT_S)
    consumer.done(other)  # what is in hand can still be finished
    with pytest.raises(ProcessingStoppedError):
        consumer.close()


def test_a_paused_partition_waits_and_others_go_on(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(2)
    paused, other = TopicPartition(orders, 0), TopicPartition(orders, 1)
    produce(settings, orders, keys_of(100, 100), 0)
    consumer = opened()
    consumer.subscribe([orders])
    kept, lost_interest = poll_some(consumer, 2)
    consumer.pause([paused])
    produce(settings, orders, keys_of(50, 50), 1)
    assert {record.partition for record in finish_some(consumer, 50)} == {other.partition}
    assert consumer.poll(QUIET_S) is None
    consumer.done(kept)
    assert consumer.commit(WAIT_S)[paused] == (1 if kept.offset == 0 else 0)
    consumer.resume([paused])
    rest = finish_some(consumer, 98)
    assert sorted([*offsets_of(rest), kept.offset, lost_interest.offset]) == list(range(100))
    consumer.done(lost_interest)
    assert consumer.commit(WAIT_S) == {paused: 100, other: 50}


def test_seek_back_hands_records_out_again_and_they_stay_done(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    tp = TopicPartition(orders, 0)
    produce(settings, orders, keys_of(100, 10))
    consumer = opened()
    consumer.subscribe([orders])
    finish_some(consumer, 100)
    assert consumer.commit(WAIT_S) == {tp: 100}
    consumer.seek(tp, 40)
    again = finish_some(consumer, 20)
    assert min(offsets_of(again)) == 40
    assert consumer.commit(WAIT_S) == {tp: 100}, "progress is what it was"
    assert len(finish_some(consumer, 40)) == 40
    assert consumer.poll(QUIET_S) is None
    consumer.seek(tp, 90)
    consumer.close()

    after = opened()
    after.subscribe([orders])
    wait_for_ranges(after)
    assert after.poll(QUIET_S) is None, "what is done does not come in another run"


def test_seek_forward_skips_in_this_run_only(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    tp = TopicPartition(orders, 0)
    produce(settings, orders, keys_of(100, 100))
    consumer = opened()
    consumer.subscribe([orders])
    [in_hand] = poll_some(consumer, 1)
    consumer.seek(tp, 60)
    assert sorted(offsets_of(finish_some(consumer, 40))) == list(range(60, 100))
    consumer.done(in_hand)
    assert consumer.commit(WAIT_S) == {tp: 1}
    assert consumer.committed([tp], WAIT_S) == {tp: CommittedOffset(1, (OffsetRange(60, 99),))}
    consumer.close()

    after = opened()
    after.subscribe([orders])
    assert sorted(offsets_of(finish_some(after, 59))) == list(range(1, 60))


def test_seek_refuses_what_cannot_be_sound(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    tp = TopicPartition(orders, 0)
    produce(settings, orders, ["a"])
    consumer = opened()
    consumer.assign({})
    with pytest.raises(MisuseError, match="no partition of a topic"):
        consumer.seek(tp, 0)
    consumer.assign({tp: []})
    poll_some(consumer, 1)
    with pytest.raises(MisuseError, match="holds offsets 0 to 0"):
        consumer.seek(tp, 2)
    consumer.assign({})
    with pytest.raises(MisuseError, match="no range of this partition is held"):
        consumer.seek(tp, 0)


class Listening(RangeListener):
    """Notes what it is told, and on which thread; may do something when ranges come."""

    def __init__(self, act: Callable[[TopicPartition], object] | None = None) -> None:
        self.heard: list[tuple[str, TopicPartition, tuple[KeyRange, ...], int]] = []
        self._act = act

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        self.heard.append(("assigned", tp, ranges, threading.get_ident()))
        if self._act is not None:
            self._act(tp)

    def on_ranges_revoked(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        self.heard.append(("revoked", tp, ranges, threading.get_ident()))


def test_the_listener_is_called_while_polling_and_closing(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    produce(settings, orders, ["a"])
    listener, consumer = Listening(), opened()
    consumer.subscribe([orders], listener)
    finish_some(consumer, 1)
    tp, here = TopicPartition(orders, 0), threading.get_ident()
    assert listener.heard == [("assigned", tp, (WHOLE,), here)]
    consumer.close()
    assert listener.heard[1:] == [("revoked", tp, (WHOLE,), here)]


def test_a_seek_in_the_listener_comes_before_the_first_record(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    produce(settings, orders, keys_of(10, 10))
    consumer = opened()
    consumer.subscribe([orders], Listening(lambda tp: consumer.seek(tp, 7)))
    assert sorted(offsets_of(finish_some(consumer, 3))) == [7, 8, 9]
    assert consumer.poll(QUIET_S) is None


def test_a_listener_that_raises_ends_the_consumer(opened: Open, topic: MakeTopic) -> None:
    def fail(tp: TopicPartition) -> None:
        raise OSError(f"{tp}: disk full")

    consumer = opened()
    consumer.subscribe([topic(1)], Listening(fail))
    with pytest.raises(WorkerCallbackError, match="disk full"):
        consumer.poll(WAIT_S)
    with pytest.raises(WorkerCallbackError):
        consumer.close()


def test_ctrl_c_in_the_listener_leaves_a_consumer_that_can_be_closed(
    opened: Open, topic: MakeTopic
) -> None:
    def interrupted(_: TopicPartition) -> None:
        raise KeyboardInterrupt

    consumer = opened()
    consumer.subscribe([topic(1)], Listening(interrupted))
    with pytest.raises(KeyboardInterrupt):
        consumer.poll(WAIT_S)
    with pytest.raises(WorkerCallbackError, match="on_ranges_assigned raised KeyboardInterrupt"):
        consumer.close()


def test_two_processes_assign_ranges_without_a_group(
    opened: Open,
    topic: MakeTopic,
    settings: Mapping[str, str],
    admin: AdminClient,
    group_id: str,
) -> None:
    orders = topic(1)
    tp = TopicPartition(orders, 0)
    produce(settings, orders, keys_of(200, 100))
    low = sum(key_hash(key.encode()) in LOW for key in keys_of(200, 100))
    first, second = opened(), opened()
    first.assign({tp: [LOW]})
    second.assign({tp: [HIGH]})
    assert all(record.key_hash in LOW for record in finish_some(first, low))
    assert all(record.key_hash in HIGH for record in finish_some(second, 200 - low))
    assert first.poll(QUIET_S) is None
    assert (first.commit(WAIT_S), second.commit(WAIT_S)) == ({tp: 200}, {tp: 200})
    assert first.assignment() == {tp: (LOW,)}
    first.close()
    second.close()
    eventually(
        lambda: committed(admin, group_id).get((orders, 0)), lambda it: it == (200, "coop:1")
    )

    whole = opened()
    whole.assign({tp: []})
    assert wait_for_ranges(whole) == {tp: (WHOLE,)}
    assert whole.poll(QUIET_S) is None


def test_an_assignment_that_overlaps_a_living_one_is_warned_of(
    opened: Open,
    topic: MakeTopic,
    settings: Mapping[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    orders = topic(1)
    tp = TopicPartition(orders, 0)
    produce(settings, orders, ["a"])
    first, second = opened(client_id="first"), opened(client_id="second")
    first.assign({tp: [LOW]})
    wait_for_ranges(first)
    assert "held by" not in caplog.text
    second.assign({tp: []})
    wait_for_ranges(second)
    assert "held by first-" in caplog.text


def test_nothing_is_assigned_beside_a_group_that_has_members(
    opened: Open, topic: MakeTopic
) -> None:
    orders = topic(1)
    member, alone = opened(), opened()
    member.subscribe([orders])
    wait_for_ranges(member)
    with pytest.raises(ForeignProtocolError, match="it has members"):
        alone.assign({TopicPartition(orders, 0): []})


def test_shares_are_refused_where_they_are_forbidden(opened: Open) -> None:
    half = {TopicPartition("orders", 0): [LOW]}
    with pytest.raises(ConfigError, match="ordering=partition keeps the order"):
        opened(ordering="partition").assign(half)
    with pytest.raises(ConsumerRangeFetchNotAcceptedError, match=r"\(90\)"):
        opened(allow_individual_commit=False).assign(half)
    with pytest.raises(IndividualCommitNotAllowedError, match=r"\(88\)"):
        opened(accept_individual_commit=False).assign(half)


def test_a_group_continues_where_an_assignment_ended(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    tp = TopicPartition(orders, 0)
    produce(settings, orders, keys_of(20, 20))
    alone = opened()
    alone.assign({tp: []})
    done = finish_some(alone, 12)
    alone.close()
    member = opened()
    member.subscribe([orders])
    assert sorted(offsets_of([*done, *finish_some(member, 8)])) == list(range(20))


def test_many_threads_poll_and_no_key_is_at_two(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(2)
    produce(settings, orders, keys_of(2_000, 20))
    consumer = opened()
    consumer.subscribe([orders])
    seen: dict[tuple[int, bytes | None], list[int]] = {}
    held: set[tuple[int, bytes | None]] = set()
    collisions: list[Record] = []
    count, guard, all_seen = [0], threading.Lock(), threading.Event()

    def work() -> None:
        for record in consumer:
            place = record.partition, record.key
            with guard:
                collisions.extend([record] if place in held else [])
                held.add(place)
                seen.setdefault(place, []).append(record.offset)
            with guard:
                held.discard(place)
            consumer.done(record)
            with guard:
                count[0] += 1
                if count[0] == 2_000:
                    all_seen.set()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert all_seen.wait(WAIT_S)
    assert sum(consumer.commit(WAIT_S).values()) == 2_000
    consumer.close(timeout=WAIT_S)
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive(), "iteration ends when the consumer is closed"
    assert not collisions, "I4: a key was in two hands"
    assert all(offsets == sorted(offsets) for offsets in seen.values()), "I4: out of order"


def test_the_owner_of_a_key_is_known(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    east, west = opened(client_id="east", host="e"), opened(client_id="west", host="w")
    for consumer in (east, west):
        consumer.subscribe([orders])
    held = eventually(
        lambda: [(c.poll(0), c.assignment())[1] for c in (east, west)],
        lambda found: all(WHOLE not in r for own in found for r in own.values()) and all(found),
    )
    [mine] = held[0].values()
    for key in (b"a", b"b", b"c", b"d"):
        owner = west.owner_of(orders, key)
        assert owner is not None
        expected = ("east-", "e") if any(key_hash(key) in r for r in mine) else ("west-", "w")
        assert (owner.member[:5], owner.host) == expected


def test_calls_out_of_turn_are_refused(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    tp = TopicPartition(orders, 0)
    member, alone = opened(), opened()
    with pytest.raises(MisuseError, match="Call subscribe or assign first"):
        member.poll(0)
    alone.assign({tp: []})  # before the group has a member, beside which it would be refused
    member.subscribe([orders])
    with pytest.raises(MisuseError, match=r"subscribe\(\) was called"):
        member.assign({tp: []})
    with pytest.raises(MisuseError, match=r"assign\(\) was called"):
        alone.subscribe([orders])
    with pytest.raises(MisuseError, match="no partition of a topic"):
        alone.committed([TopicPartition(orders, 1)])
    member.close()
    member.close()
    for call in (member.poll, member.commit, member.assignment, lambda: member.subscribe([orders])):
        with pytest.raises(MisuseError, match="the consumer is closed"):
            call()


def test_subscribing_again_replaces_the_topics_and_keeps_their_progress(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders, bills = topic(1), topic(1)
    listener, consumer = Listening(), opened()
    produce(settings, orders, keys_of(20, 20))
    produce(settings, bills, keys_of(30, 30))
    consumer.subscribe([orders], listener)
    first = finish_some(consumer, 5)

    consumer.subscribe([bills])
    wait_for_topic(consumer, bills)
    assert {record.topic for record in finish_some(consumer, 30)} == {bills}
    assert consumer.poll(QUIET_S) is None
    assert ("revoked", TopicPartition(orders, 0)) in [heard[:2] for heard in listener.heard]

    with pytest.raises(TopicMissingError, match="no-such-topic"):
        consumer.subscribe([orders, "no-such-topic"])
    assert [tp.topic for tp in consumer.assignment()] == [bills], "all stays as it was"

    consumer.subscribe([orders])
    wait_for_topic(consumer, orders)
    rest = finish_some(consumer, 15)
    assert sorted(offsets_of([*first, *rest])) == list(range(20))


def wait_for_topic(consumer: CooperativeConsumer, name: str) -> None:
    """Wait, without taking a record, until this topic and no other is assigned."""
    eventually(lambda: [tp.topic for tp in consumer.assignment()], lambda it: it == [name])


def test_what_is_committed_can_be_asked_before_the_group_is_joined(
    opened: Open, topic: MakeTopic
) -> None:
    orders = topic(1)
    tp, consumer = TopicPartition(orders, 0), opened()
    consumer.subscribe([orders])
    assert consumer.committed([tp], WAIT_S) in ({tp: None}, {tp: CommittedOffset(0)})


def test_only_our_own_words_for_a_partition_are_taken(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    consumer = opened()
    consumer.subscribe([orders])
    theirs: Any = Place(orders, 0)
    calls: tuple[Callable[[Any], object], ...] = (
        consumer.pause,
        consumer.resume,
        consumer.position,
        consumer.committed,
        lambda places: consumer.seek(places[0], 0),
        lambda places: opened().assign(dict.fromkeys(places, ())),
    )
    for call in calls:
        for place in (theirs, (orders, 0), orders):
            with pytest.raises(MisuseError, match=r"is no coop_consumer\.TopicPartition"):
                call([place])
    no_offset: Any = 1.0
    with pytest.raises(MisuseError, match=r"1\.0 is no offset"):
        consumer.seek(TopicPartition(orders, 0), no_offset)


def test_a_partition_that_does_not_exist_is_not_assigned(opened: Open, topic: MakeTopic) -> None:
    orders = topic(2)
    with pytest.raises(MisuseError, match=rf"{orders}-2 does not exist: its topic has 2"):
        opened().assign({TopicPartition(orders, 2): []})


def test_what_is_in_hand_at_the_end_comes_again(
    opened: Open, topic: MakeTopic, settings: Mapping[str, str]
) -> None:
    orders = topic(1)
    produce(settings, orders, ["a", "b"])
    first = opened()
    first.subscribe([orders])
    [left, other] = poll_some(first, 2)
    first.done(other)
    first.close()
    with pytest.raises(MisuseError, match="given back by close"):
        first.done(left)
    second = opened()
    second.subscribe([orders])
    assert offsets_of(finish_some(second, 1)) == [left.offset]
    assert second.poll(QUIET_S) is None
