"""Failed records: back-off, the last attempt, and what each policy does then."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from assignors import WHOLE, AssignmentData, KeyRange, Wait, decode_subscription, subtract
from assignors.key_hash import key_hash
from coop_consumer.core import actions, events
from coop_consumer.core.failure import describe, failure_told
from coop_consumer.errors import (
    BrokerUnreachableError,
    CoopConsumerError,
    ProcessingStoppedError,
    RecordTooLargeError,
)
from offsets import (
    DecisionKey,
    DecisionRecord,
    MemoryLog,
    StopKey,
    decode_key,
    encode_key,
    encode_value,
)
from tests.unit.core_member import GROUP, HIGH, LOW, T0, TOPIC_ID, TableMember, keys_in, tag

LOST = BrokerUnreachableError("table:9092", "no answer")
BACKOFF_MS = 100


def member_of(
    policy: str, *, attempts: int = 2, log: MemoryLog | None = None, joins: bool = True
) -> TableMember:
    name = "m1" if joins else "m2"
    member = TableMember(
        name,
        log=log,
        on_failure=policy,
        max_attempts=attempts,
        attempt_backoff_ms=BACKOFF_MS,
        attempts_for_ms=0,
        circuit_share=0,
    )
    if joins:
        member.assign(WHOLE)
    return member


def fail_for_good(member: TableMember, offset: int, attempts: int = 2) -> None:
    for attempt in range(attempts):
        assert offset in member.start()
        member.fail(offset)
        if attempt + 1 < attempts:
            member.after(60_000)


def test_a_failed_record_holds_its_own_key_and_nothing_else() -> None:
    member = member_of("park")
    member.produce(b"a", b"a", b"b")
    member.start()
    member.fail(0)
    assert member.finish_all() == [2]
    member.produce(b"b")
    assert member.finish_all() == [3]


def test_a_failed_record_comes_again_after_its_back_off_with_the_next_attempt() -> None:
    member = member_of("park")
    member.produce(b"a", b"a")
    member.start()
    member.fail(0)
    member.after(BACKOFF_MS // 2 - 1)
    assert member.start() == []
    member.after(BACKOFF_MS)
    assert member.start() == [0]
    (_, record, _) = next(iter(member.running.values()))
    assert record.attempt == 2
    assert member.finish_all() == [0, 1]


def test_a_parked_record_waits_for_a_decision_and_retry_begins_with_the_first_attempt() -> None:
    member = member_of("park")
    member.produce(b"a", b"a", b"b")
    fail_for_good(member, 0)
    assert member.finish_all() == [2]
    member.after(600_000)
    assert member.start() == []
    assert member.store.attempts()[0].parked
    decide(member, 0, DecisionRecord("retry", 0))
    assert member.start() == [0]
    assert next(iter(member.running.values()))[1].attempt == 1
    assert member.finish_all() == [0, 1]
    assert not member.store.decisions


def test_a_decision_to_skip_counts_the_record_as_done_and_lets_its_key_go_on() -> None:
    member = member_of("park")
    member.produce(b"a", b"a")
    fail_for_good(member, 0)
    decide(member, 0, DecisionRecord("skip", 0))
    assert member.finish_all() == [1]
    assert member.core.state.counters.skipped == 1
    for _ in range(2):
        member.after(5_000)
    assert member.committed == (2, tag(1))


def decide(member: TableMember, offset: int, decision: DecisionRecord) -> None:
    key = encode_key(DecisionKey(GROUP, TOPIC_ID, 0, offset))
    member.log.append(key, encode_value(decision))
    member.hear_log()


def test_a_parked_record_stays_parked_with_its_next_owner() -> None:
    old = member_of("park")
    old.produce(b"a", b"a")
    fail_for_good(old, 0)
    old.assign()
    new = TableMember("m2", log=old.log, committed=old.committed, on_failure="park")
    new.assign(WHOLE)
    new.produce(b"a", b"a")
    assert new.start() == []
    decide(new, 0, DecisionRecord("retry", 0))
    assert new.finish_all() == [0, 1]


QUARTERS = WHOLE.parts(4)


@pytest.mark.parametrize("quarter", [QUARTERS[0], QUARTERS[2]])
def test_a_parked_record_stays_parked_with_who_gets_two_separate_ranges(quarter: KeyRange) -> None:
    [key] = keys_in(quarter, 1)
    old = TableMember("m1", incarnation=7, on_failure="park", max_attempts=2)
    old.assign(WHOLE)
    old.produce(key, key)
    fail_for_good(old, 0)
    old.assign(QUARTERS[1], QUARTERS[3])
    new = TableMember("m2", incarnation=9, log=old.log, committed=old.committed)
    new.assign(QUARTERS[0], QUARTERS[2])
    new.produce(key, key)
    assert new.start() == []
    assert {o: (it.attempts, it.parked) for o, it in new.store.attempts().items()} == {0: (2, True)}


def failed_after_a_seek_back() -> TableMember:
    """Two records of a key were done; the first one comes again, and fails."""
    member = member_of("park")
    member.produce(b"a", b"a")
    member.finish_all()
    member.after(1_000)
    member.tell(events.Seek(7, T0, 0))
    member.fetch()
    fail_for_good(member, 0)
    return member


def test_what_fails_again_after_a_seek_back_is_parked_for_people_to_see_and_decide() -> None:
    member = failed_after_a_seek_back()
    member.after(1_000)
    assert member.store.attempts()[0].parked
    assert member.store.progress().stable == 2, "I3: it was done before"
    key = DecisionKey(GROUP, TOPIC_ID, 0, 0)
    member.log.append(encode_key(key), encode_value(DecisionRecord("skip", 0)))
    assert key not in member.store.superseded({"m1"}, member.log.end_offset), "not yet applied"
    member.hear_log()
    assert member.finish_all() == [1]
    member.after(1_000)
    assert not member.store.attempts()


def test_what_failed_again_after_a_seek_back_is_nothing_to_the_next_owner() -> None:
    old = failed_after_a_seek_back()
    old.assign()
    new = TableMember("m2", log=old.log, committed=old.committed, on_failure="park")
    new.assign(WHOLE)
    assert not new.core.state.partitions[T0].tenures[0].attempts
    assert not new.store.attempts()


def test_attempts_travel_with_the_range() -> None:
    old = member_of("park", attempts=3)
    old.produce(b"a")
    old.start()
    old.fail(0)
    old.assign()
    new = TableMember("m2", log=old.log, committed=old.committed)
    new.assign(WHOLE)
    new.produce(b"a")
    new.start()
    assert next(iter(new.running.values()))[1].attempt == 2


def test_an_evicted_owner_that_began_late_does_not_hide_what_is_parked() -> None:
    old = member_of("park")
    zombie = TableMember("m2", log=old.log, committed=old.committed)
    old.produce(b"a")
    fail_for_good(old, 0)
    old.after(1_000)
    zombie.assign(WHOLE)
    zombie.tell(events.Lost("session over"))
    zombie.after(1_000)
    assert [t.id.member for t in old.store.tenures()] == ["m1", "m2"]
    assert old.store.attempts()[0].parked


def test_skip_counts_the_record_as_done_and_in_the_metrics() -> None:
    member = member_of("skip")
    member.produce(b"a", b"a")
    fail_for_good(member, 0)
    assert member.finish_all() == [1]
    assert member.core.state.counters.skipped == 1


def test_a_dead_letter_counts_as_done_only_once_it_is_acknowledged() -> None:
    member = member_of("dead_letter")
    member.produce(b"a", b"a")
    fail_for_good(member, 0)
    (letter,) = member.told(actions.DeadLetter)
    assert (letter.record.offset, letter.attempts) == (0, 2)
    assert member.start() == []
    member.tell(events.DeadLettered(letter.record, None))
    assert member.finish_all() == [1]
    assert member.core.state.counters.dead_lettered == 1


def test_a_refused_dead_letter_is_sent_again_and_blocks_its_key_until_then() -> None:
    member = member_of("dead_letter")
    member.produce(b"a", b"a")
    fail_for_good(member, 0)
    member.tell(events.DeadLettered(member.told(actions.DeadLetter)[0].record, LOST))
    assert member.start() == []
    member.after(60_000)
    assert len(member.told(actions.DeadLetter)) == 2
    member.tell(events.DeadLettered(member.told(actions.DeadLetter)[1].record, None))
    assert member.finish_all() == [1]


def refuse_letters(member: TableMember, ms: int, error: CoopConsumerError = LOST) -> list[str]:
    """Time passes in which every dead letter is refused at once; what is reported meanwhile."""
    first, until_ms = len(member.told(actions.LogLine)), member.now_ms + ms
    while member.now_ms < until_ms:
        member.kept_back = {actions.DeadLetter}
        member.after(100)
        refused, member.unanswered = member.unanswered, []
        for letter in refused:
            assert isinstance(letter, actions.DeadLetter)
            member.tell(events.DeadLettered(letter.record, error))
    return [it.text for it in member.told(actions.LogLine)[first:]]


def with_dead_letters(count: int) -> TableMember:
    member = member_of("dead_letter", attempts=1)
    member.kept_back = {actions.DeadLetter}
    member.produce(*[b"key-%d" % number for number in range(count)])
    member.fail(*member.start())
    member.after(60_000)  # what was left out of the lines about failures is told
    return member


def test_what_a_dead_letter_topic_refuses_is_one_line_in_ten_seconds_whatever_the_keys() -> None:
    member = with_dead_letters(300)
    for letter in member.told(actions.DeadLetter):
        member.tell(events.DeadLettered(letter.record, LOST))
    first = member.told(actions.LogLine)[-1].text
    assert first.startswith("t-0@0 (key b'key-0'): the dead-letter topic refused it (bootstrap")
    member.unanswered.clear()
    lines = refuse_letters(member, 60_000)
    assert len(lines) == 6
    assert all(
        "refused records of 300 keys in the last 10 s, the first at t-0@" in x for x in lines
    )


def test_each_kind_of_refusal_has_its_line_and_none_is_told_once_it_is_over() -> None:
    member = with_dead_letters(2)
    large = RecordTooLargeError("t.dlq", "2 MB")
    for letter, error in zip(member.told(actions.DeadLetter), (LOST, large), strict=True):
        member.tell(events.DeadLettered(letter.record, error))
    told = [it.text for it in member.told(actions.LogLine) if "refused it" in it.text]
    assert ["t.dlq" in text for text in told] == [False, True]
    member.unanswered.clear()
    refuse_letters(member, 20_000)
    member.kept_back, member.unanswered = {actions.DeadLetter}, []
    while not member.unanswered:
        member.after(100)
    for letter in member.told(actions.DeadLetter)[-2:]:
        member.tell(events.DeadLettered(letter.record, None))
    member.after(10_000)  # what was refused before is told
    before = len(member.told(actions.LogLine))
    member.after(60_000)
    assert len(member.told(actions.LogLine)) == before
    assert member.core.failures.next_due_ms() is None


def test_the_next_record_of_a_dead_letters_key_has_all_its_attempts() -> None:
    member = member_of("dead_letter", attempts=3)
    member.produce(b"a", b"a")
    fail_for_good(member, 0, attempts=3)
    (letter,) = member.told(actions.DeadLetter)
    member.tell(events.DeadLettered(letter.record, None))
    fail_for_good(member, 1, attempts=3)
    letters = [(it.record.offset, it.attempts) for it in member.told(actions.DeadLetter)]
    assert letters == [(0, 3), (1, 3)]
    assert member.core.state.counters.failures == 6


def test_stop_is_a_decision_of_the_group_that_all_members_hear_of() -> None:
    member = member_of("stop")
    member.produce(b"a", b"b")
    fail_for_good(member, 0)
    assert member.told(actions.Rejoin)
    assert member.core.state.membership.stop
    entries = [entry for append in member.to_log() for entry in append.entries]
    (stop,) = [value for key, value in entries if isinstance(decode_key(key), StopKey)]
    assert stop is not None


def test_a_stop_is_not_meant_for_a_run_that_joined_after_it() -> None:
    """The seat of a stopped static member tells of the stop until its session ends."""
    stopped = member_of("stop")
    stopped.produce(b"a")
    fail_for_good(stopped, 0)
    stop = decode_subscription(stopped.core.subscription()).stop
    other = member_of("stop")
    other.assign(WHOLE, stop=stop)
    assert other.core.state.membership.closing, "it was there when the group stopped"

    mended = TableMember("m2", on_failure="stop", incarnation=2, static=True)
    mended.assign(WHOLE, generation=2, stop=stop)
    assert not mended.core.state.membership.closing
    assert mended.told(actions.Rejoin), "the plan may be the one of before"
    assert not decode_subscription(mended.core.subscription()).stop, "nor does it pass it on"


@pytest.mark.parametrize("refused", ["", "contract:of before"])
def test_a_static_run_whose_first_assignment_is_empty_joins_again_once(refused: str) -> None:
    """Its earlier run was about to leave, or was refused: nobody would ever assign it anything."""
    member = TableMember(static=True)
    member.assign(refused=refused)
    assert [a.reason for a in member.told(actions.Rejoin)] == [
        "the assignment may be that of an earlier run"
    ]
    assert not member.core.state.membership.closing
    member.assign(refused=refused)
    assert len(member.told(actions.Rejoin)) == 1
    assert member.core.state.membership.closing == bool(refused)


def test_a_stop_that_cannot_be_read_is_none() -> None:
    member = member_of("stop")
    member.assign(WHOLE, stop='["t", 0, "seven"]')
    assert not member.core.state.membership.closing


def test_a_failure_during_a_handover_is_noted_for_the_next_owner() -> None:
    old = member_of("park", attempts=3)
    old.produce(b"a")
    old.start()
    old.assign()
    old.fail(0)
    assert old.store.attempts()[0].attempts == 1
    assert not old.store.unreleased(old.store.tenures()[0].id, [WHOLE])


def failed_while_it_drained(policy: str, *, tries: int, **settings: Any) -> TableMember:
    """It has failed so often when its range is given up, while its handler runs; and fails."""
    settings = {"max_attempts": 2, "attempts_for_ms": 0, "circuit_share": 0, **settings}
    member = TableMember(on_failure=policy, attempt_backoff_ms=BACKOFF_MS, **settings)
    member.assign(WHOLE)
    member.produce(b"a", b"a")
    for _ in range(tries):
        member.fail(*member.start())
        member.after(BACKOFF_MS)
    member.start()
    member.assign()
    member.fail(0)
    (tenure,) = member.store.tenures()
    assert not member.store.unreleased(tenure.id, [WHOLE])
    return member


def next_owner(old: TableMember, policy: str) -> TableMember:
    new = member_of(policy, log=old.log, joins=False)
    new.committed, new.messages = old.committed, old.messages
    new.assign(WHOLE)
    new.fetch()
    return new


def test_a_last_attempt_that_fails_while_its_key_drains_is_parked_for_the_next_owner() -> None:
    old = failed_while_it_drained("park", tries=1)
    attempt = old.store.attempts()[0]
    assert (attempt.attempts, attempt.parked) == (2, True)
    (text,) = [it.text for it in old.told(actions.LogLine) if "Parked" in it.text]
    assert "`coop-consumer retry billing t-0 0 " in text
    new = next_owner(old, "park")
    new.after(60_000)
    assert new.start() == []
    decide(new, 0, DecisionRecord("retry", 0))
    assert new.finish_all() == [0, 1]


@pytest.mark.parametrize(
    ("tries", "for_ms", "policy"),
    [(0, 0, "park"), (1, 60_000, "park"), (1, 0, "dead_letter"), (1, 0, "stop")],
)
def test_any_other_failure_while_its_key_drains_leaves_the_record_to_its_next_owner(
    tries: int, for_ms: int, policy: str
) -> None:
    old = failed_while_it_drained(policy, tries=tries, attempts_for_ms=for_ms)
    attempt = old.store.attempts()[0]
    assert (attempt.attempts, attempt.parked) == (tries + 1, False)
    assert next_owner(old, policy).start() == [0]


def test_a_failure_while_the_circuit_is_open_parks_nothing_that_drains() -> None:
    member = TableMember(circuit_keys=2, attempts_for_ms=0, max_attempts=1, on_failure="park")
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    a, b, c = member.start()
    member.fail(a, b)
    assert member.core.circuit.is_open
    member.assign()
    member.fail(c)
    assert c not in member.store.attempts()


def test_a_last_attempt_that_fails_while_its_key_drains_is_skipped_by_who_still_has_it() -> None:
    old = failed_while_it_drained("skip", tries=1)
    assert old.core.state.counters.skipped == 1
    assert not old.store.attempts()
    assert old.store.progress().is_done(key_hash(b"a"), 0)
    assert next_owner(old, "skip").finish_all() == [1]


def test_a_failure_that_the_log_does_not_have_yet_counts_where_the_range_comes_back() -> None:
    """A member that releases a range and gets it back at once knows more of it than the log."""
    member = TableMember(max_attempts=3)
    member.assign(WHOLE)
    member.produce(b"a")
    assert member.start() == [0]
    member.kept_back = {actions.Commit}
    member.assign()
    member.fail(0)
    member.assign(WHOLE)
    member.let_go()
    member.fetch()
    member.after(BACKOFF_MS)
    assert member.start() == [0]
    ((_, record, _),) = member.running.values()
    assert record.attempt == 2


def test_of_a_hash_whose_release_is_in_the_log_the_log_alone_says_what_has_failed() -> None:
    """Its next owner has heard a decision about what a tenure that drains on here has parked."""
    old = member_of("park", attempts=1)
    old.produce(b"a", b"b")
    assert old.start() == [0, 1]
    old.assign()
    old.fail(0)
    assert old.store.attempts()[0].parked
    at_b = KeyRange(key_hash(b"b"), key_hash(b"b"))
    new = member_of("park", attempts=1, log=old.log, joins=False)
    new.committed, new.messages = old.committed, old.messages
    new.assign(*subtract((WHOLE,), (at_b,)))
    new.fetch()
    decide(new, 0, DecisionRecord("retry", 0))
    new.assign()
    assert not old.store.attempts()
    old.assign(WHOLE)
    old.fetch()
    assert old.start() == [0]


class LockWithNews(AbstractContextManager[object]):
    """The lock of the lanes; once, before it is taken, something happens in another thread."""

    def __init__(self) -> None:
        self.news: list[Callable[[], object]] = []

    def __exit__(self, *_: object) -> None:
        while self.news:
            self.news.pop()()


def test_what_fails_in_the_moment_in_which_its_range_is_given_up_is_told_with_the_release() -> None:
    lock = LockWithNews()
    old = TableMember(lock=lock, max_attempts=1, on_failure="park", circuit_share=0)
    old.assign(WHOLE)
    old.produce(b"a")
    old.start()
    ((entry, record, _),) = old.running.values()
    assert entry is record

    def fails() -> None:
        old.core.lanes.errors[record] = failure_told(ValueError("no route"))
        old.core.lanes.ended.append(record)

    old.tell(events.Joining())
    lock.news.append(fails)
    old.tell(
        events.Assigned(
            events.GroupMetadata(2), AssignmentData(lead="m1", members=1, planned={"t": 1})
        )
    )
    assert not lock.news
    (tenure,) = old.store.tenures()
    assert not old.store.unreleased(tenure.id, [WHOLE])
    assert old.store.attempts()[0].parked


def test_a_new_owner_that_has_begun_hears_of_a_failure_while_the_hash_drained() -> None:
    """Else a poisonous record that runs in each rebalance is tried for ever."""
    old = member_of("park", attempts=3)
    old.produce(b"a", b"b")
    old.start()
    old.finish(1)
    old.tell(events.Joining())
    old.assign()
    [claim] = decode_subscription(old.core.subscription()).claims
    new = member_of("park", attempts=3, log=old.log, joins=False)
    new.committed = old.committed
    waits = (Wait(old.name, 1, claim.number, T0, claim.ranges),)
    new.assign(WHOLE, waits=waits)
    new.messages = old.messages
    new.fetch()
    old.fail(0)
    new.hear_log()
    assert new.start() == [0]
    (_, record, _) = next(iter(new.running.values()))
    assert record.attempt == 2
    assert new.store.attempts()[0].attempts == 1


def test_failures_of_given_away_ranges_are_told_once_and_then_forgotten() -> None:
    member = member_of("park")
    keys = [b"key-%d" % number for number in range(20)]
    member.produce(*keys)
    member.fail(*member.start())
    high = {offset for offset, key in enumerate(keys) if key_hash(key) in HIGH}
    member.assign(LOW)
    member.after(10_000)
    [tenure] = member.core.state.partitions[T0].tenures
    assert set(tenure.attempts) == set(range(len(keys))) - high
    assert set(member.store.attempts()) == set(range(len(keys)))


def test_more_failures_than_a_record_of_the_log_has_room_for_are_told_and_inherited() -> None:
    """An outage fails every key there is. The member ended, and so did each successor of it."""
    count = 30_000
    first = member_of("park", attempts=9)
    first.produce(*[b"key-%d" % number for number in range(count)])
    first.fail(*first.start(), why="x" * 300)
    first.after(1_000)
    assert max(len(record.value or b"") for record in first.log.read(0, count).records) < 1_000_000
    assert len(first.store.attempts()) == count
    second = member_of("park", attempts=9, log=first.log, joins=False)
    second.committed = first.committed
    first.tell(events.Close())
    second.assign(WHOLE)
    [tenure] = second.core.state.partitions[T0].tenures
    assert tenure.begun
    assert len(tenure.attempts) == len(second.store.attempts()) == count


def test_of_two_records_that_failed_each_comes_back_in_its_own_time() -> None:
    member = member_of("park", attempts=5)
    member.produce(b"a", b"b")
    member.start()
    member.fail(0)
    member.now_ms += 10_000
    member.fail(1)
    assert member.start() == [0]
    member.after(BACKOFF_MS)
    assert member.start() == [1]


class MuteError(Exception):
    """Cannot even say what it is."""

    def __str__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\nlines"), "ValueError: two lines"),
        (KeyError(), "KeyError"),
        (OSError("no \udcff.csv"), r"OSError: no \udcff.csv"),
        (ValueError("\x1b[2J\x9bgone\x00"), r"ValueError: \x1b[2J\x9bgone\x00"),
        (ValueError("word " * 50), "ValueError: " + "word " * 36 + "word..."),
        (MuteError(), "MuteError: (its text cannot be made: ZeroDivisionError)"),
    ],
)
def test_any_error_becomes_one_line_that_can_be_written(error: Exception, line: str) -> None:
    assert describe(error) == line
    assert describe(error).encode()


def test_a_parked_record_is_reported_with_two_commands_ready_to_paste() -> None:
    member = TableMember(max_attempts=1, progress_topic="progress")
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    (text,) = [r.text for r in member.fail(0) if isinstance(r, actions.LogLine)]
    options = "--bootstrap table:9092 --config progress.topic=progress"
    assert f"`coop-consumer retry billing t-0 0 {options}`" in text
    assert f"`coop-consumer skip billing t-0 0 {options}`" in text
    assert "|" not in text


def parked(member: TableMember) -> bool:
    return any(attempt.parked for attempt in member.store.attempts().values())


def fail_until(member: TableMember, ms: int) -> int:
    """It fails whenever it is tried, for so long; returns how often."""
    count, until_ms = 0, member.now_ms + ms
    while member.now_ms < until_ms and not parked(member):
        for offset in member.start():
            member.fail(offset)
            count += 1
        member.after(100)
    return count


def test_by_default_a_record_outlasts_five_minutes_and_is_given_up_then() -> None:
    member = TableMember(lock=nullcontext())
    member.assign(WHOLE)
    member.produce(b"a")
    assert fail_until(member, 300_000) > 60
    assert not parked(member)
    fail_until(member, 6_000)
    assert parked(member)


def test_a_standalone_member_stops_by_itself() -> None:
    """No leader tells it to: it waited for that for good, with a failed record in its hands."""
    member = member_of("stop", attempts=1, joins=False)
    member.tell(events.AssignAlone({T0: (WHOLE,)}))
    member.produce(b"a", b"b")
    member.start()
    member.fail(0)
    member.finish_all()
    member.after(1_000)
    (left,) = member.told(actions.Leave)
    assert isinstance(left.error, ProcessingStoppedError)
    assert (left.error.topic, left.error.offset) == ("t", 0)
    assert "`coop-consumer skip billing t-0 0 --bootstrap table:9092`" in str(left.error)


def test_who_sets_the_number_of_attempts_alone_means_that_number() -> None:
    member = TableMember(max_attempts=3)
    member.assign(WHOLE)
    member.produce(b"a")
    assert fail_until(member, 60_000) == 3


def test_a_record_is_given_up_once_both_its_attempts_and_its_time_are_used_up() -> None:
    settings: dict[str, Any] = {
        "max_attempts": 2,
        "attempts_for_ms": 10_000,
        "attempt_backoff_ms": 5_000,
    }
    soon = TableMember(**settings)
    soon.assign(WHOLE)
    soon.produce(b"a")
    assert fail_until(soon, 60_000) > 2, "two attempts take less than the time"
    late = TableMember(**{**settings, "attempts_for_ms": 1})
    late.assign(WHOLE)
    late.produce(b"a")
    assert fail_until(late, 60_000) == 2


@pytest.mark.parametrize(("clock_ms", "tries"), [(0, 1), (3_600_000, 1), (-3_600_000, 2)])
def test_the_first_failure_travels_and_a_clock_that_is_behind_begins_the_time_anew(
    clock_ms: int, tries: int
) -> None:
    """Of a clock that is wrong comes a record that is given up sooner or later, never a loss."""
    settings: dict[str, Any] = {
        "max_attempts": 2,
        "attempts_for_ms": 2_000,
        "attempt_backoff_ms": 2_500,
    }
    old = TableMember(**settings)
    old.now_ms = 7_200_000
    old.assign(WHOLE)
    old.produce(b"a")
    old.fail(*old.start())
    old.assign()
    new = TableMember("m2", log=old.log, committed=old.committed, **settings)
    new.now_ms = old.now_ms + 1_500 + clock_ms
    new.assign(WHOLE)
    new.produce(b"a")
    assert fail_until(new, 60_000) == tries


def test_the_time_in_which_the_circuit_is_open_does_not_count() -> None:
    member = TableMember(circuit_keys=2, attempts_for_ms=10_000, max_attempts=1)
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    a, b, c = member.start()
    member.fail(a, b)
    member.after(60_000)
    member.finish(c)
    probe, *_ = member.start()
    member.finish(probe)
    assert not member.core.circuit.is_open
    (left,) = member.start()
    member.fail(left)
    member.after(1_000)
    assert not parked(member)


def test_of_many_failures_the_first_lines_and_then_their_number_is_reported() -> None:
    member = TableMember(lock=nullcontext(), circuit_share=0, max_attempts=1)
    member.assign(WHOLE)
    member.produce(*[b"key-%d" % number for number in range(1_000)])
    member.fail(*member.start())
    texts = [it.text for it in member.told(actions.LogLine)]
    assert len(texts) == 20
    assert all("Parked" in text for text in texts)
    member.after(2_001)
    (*_, last) = [it.text for it in member.told(actions.LogLine)]
    assert "t-0@999" in last
    assert "(979 more like it were left out; coop-consumer status billing" in last
    member.after(60_000)
    assert len(member.told(actions.LogLine)) == 21, "nothing is left to say"


def test_the_same_traceback_is_shown_for_two_records_and_again_with_their_last_attempt() -> None:
    member = TableMember(max_attempts=2, attempt_backoff_ms=1_000)
    member.assign(WHOLE)
    member.produce(*[b"key-%d" % number for number in range(6)])
    for _ in range(2):
        member.fail(*member.start())
        member.after(2_000)
    shown = [report for report in member.told(actions.LogLine) if report.failure]
    assert len(shown) == 4
