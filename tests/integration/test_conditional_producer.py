"""Check-and-set on a partition of a real broker: races, crashes, doubts and bad input."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from coop_consumer.core.transaction import Said
from coop_consumer.errors import (
    AppendInDoubtError,
    AppendTooLargeError,
    BulkLoadConflictError,
    ConfigError,
    LogBlockedError,
    LogConflictError,
    LogRecreatedError,
    LogTokenError,
    MisuseError,
    RecordTooLargeError,
    TopicMissingError,
)
from coop_consumer.logs import ConditionalProducer, Conflict, LogToken, NewRecord
from coop_consumer.logs.kafka_log import KafkaLog
from tests.support.appending import PLAIN, RECORDS, STEPS, load_records
from tests.support.brokers import MakeTopic
from tests.support.journal import WAIT_S
from tests.support.killed import to_be_killed
from tests.support.stock import eventually, produce, records_of
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

Make = Callable[..., ConditionalProducer]


@pytest.fixture
def name(topic: MakeTopic) -> str:
    return topic()


@pytest.fixture
def producer(bootstrap: str, name: str) -> Iterator[Make]:
    """Make producers of the topic: `producer("a")`."""
    with ExitStack() as made:
        yield lambda writer, at=name, partition=0: made.enter_context(
            ConditionalProducer({"bootstrap.servers": bootstrap}, at, partition, writer)
        )


def values(bootstrap: str, name: str) -> list[bytes | None]:
    """What readers of committed records see, once all markers are written."""
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    return [it.value() for it in records_of(settings, name)]


def some(*given: str) -> list[NewRecord]:
    return [NewRecord(None, it.encode()) for it in given]


def test_a_b_c_and_then_d_e_f_once_or_not_at_all(producer: Make, bootstrap: str, name: str) -> None:
    """The example that the idea comes from, and what became of it: no prefix, no gap, no repeat."""
    leader, rival = producer("leader"), producer("rival")
    at_c = leader.append(some("A", "B", "C"), leader.token())
    assert isinstance(at_c, LogToken)
    at_f = leader.append(some("D", "E", "F"), at_c)
    assert isinstance(at_f, LogToken)
    refused = rival.append(some("X", "Y"), at_c)
    assert refused == Conflict(at_c, at_f)
    again = leader.append(some("D", "E", "F"), at_c)
    assert again == Conflict(at_c, at_f)
    assert rival.token() == at_f
    assert values(bootstrap, name) == [b"A", b"B", b"C", b"D", b"E", b"F"]
    assert [it.value for it in rival.read(at_c)] == [b"D", b"E", b"F"]


def test_a_producer_finds_its_own_last_append(producer: Make) -> None:
    """Its marker may be on the way, and so nobody sees it yet."""
    writer = producer("a")
    for number in range(30):
        end = writer.append(some(str(number)), writer.token())
        assert isinstance(end, LogToken)
        assert writer.token() == end


def test_an_append_that_is_sent_again_for_ever_is_there_once(
    producer: Make, bootstrap: str, name: str
) -> None:
    first, other = producer("first"), producer("other")
    token, append_id = first.token(), os.urandom(16)
    ends = [
        it.append(some("once", "and all"), token, append_id=append_id)
        for it in (first, other, first, first, other)
    ]
    assert set(ends) == {token.at(1)}
    other.append(some("more"), token.at(1))
    assert first.append(some("once", "and all"), token, append_id=append_id) == token.at(1)
    assert values(bootstrap, name) == [b"once", b"and all", b"more"]


def test_racing_publishers_lose_no_update(producer: Make, bootstrap: str, name: str) -> None:
    count, each = 4, 25
    failures: list[BaseException] = []

    def increment(writer: ConditionalProducer) -> None:
        token, known, wins = writer.token().at(-1), 0, 0
        while wins < each:
            end = writer.append(some(str(known + 1)), token)
            if isinstance(end, LogToken):
                token, known, wins = end, known + 1, wins + 1
                continue
            news = writer.read(token)
            token, known = token.at(news[-1].offset), int(news[-1].value or b"")

    def run(writer: ConditionalProducer) -> None:
        try:
            increment(writer)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=run, args=(producer(f"p{n}"),)) for n in range(count)]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    assert failures == []
    expected = [b"%d" % n for n in range(1, count * each + 1)]
    assert eventually(lambda: values(bootstrap, name), lambda it: len(it) >= len(expected)) == (
        expected
    )


def test_a_plain_producer_beside_it_is_a_conflict(
    producer: Make, bootstrap: str, name: str
) -> None:
    writer = producer("a")
    token = writer.append(some("ours"), writer.token())
    assert isinstance(token, LogToken)
    [(_, offset)] = produce({"bootstrap.servers": bootstrap}, name, ["plain"])
    assert writer.append(some("lost"), token) == Conflict(token, token.at(offset))
    assert writer.append(some("found"), token.at(offset)) == token.at(offset + 3)
    assert values(bootstrap, name) == [b"ours", b"value", b"found"]


# ---- crashes and doubts --------------------------------------------------------------------------


@pytest.mark.parametrize("step", range(len(STEPS)), ids=STEPS)
def test_who_is_killed_at_any_step_has_appended_all_or_nothing(
    producer: Make, bootstrap: str, name: str, step: int
) -> None:
    """Whoever comes next finds out, under whatever name, and blocks nobody."""
    helper = producer("helper")
    empty = helper.token()
    with to_be_killed("tests.support.appending", {"bootstrap.servers": bootstrap}, name, step):
        pass
    is_there = STEPS[step] == "after commit"
    has_lost = STEPS[step].endswith("abort")
    other = helper.append(some("another"), empty)
    assert isinstance(other, Conflict) == (is_there or has_lost)
    again = helper.append(RECORDS, empty, append_id=bytes(16))
    assert isinstance(again, LogToken) == is_there
    found = [PLAIN] if has_lost else [it.value for it in RECORDS] if is_there else [b"another"]
    assert values(bootstrap, name) == found


SLEEPER = """
import os, signal, sys
from coop_consumer.logs import ConditionalProducer, NewRecord
from coop_consumer.logs.kafka_log import KafkaLog

bootstrap, topic = sys.argv[1:]
real, left = KafkaLog.commit, [True]

def commit(log):
    if left and left.pop():
        print("asleep", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
    return real(log)

KafkaLog.commit = commit
with ConditionalProducer({"bootstrap.servers": bootstrap}, topic, 0, "sleeper") as producer:
    end = producer.append([NewRecord(None, b"of the sleeper")], producer.token())
    print(type(end).__name__, flush=True)
"""


def test_who_sleeps_in_its_transaction_holds_nobody_up_and_learns_of_it(
    producer: Make, bootstrap: str, name: str
) -> None:
    helper = producer("helper")
    empty = helper.token()
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER, bootstrap, name], stdout=subprocess.PIPE, text=True
    ) as sleeper:
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == "asleep\n"
        assert isinstance(helper.append(some("of the helper"), empty), LogToken)
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.stdout.readline() == "Conflict\n"
        assert sleeper.wait(WAIT_S) == 0
    assert values(bootstrap, name) == [b"of the helper"]


def test_a_commit_without_an_answer_is_looked_up(
    producer: Make, bootstrap: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = producer("a")
    token = writer.token()
    real, answers = KafkaLog.commit, [Said.BROKEN, Said.AGAIN]

    def commit(log: KafkaLog) -> Said:
        said = real(log)  # a second call behind a commit is an error of librdkafka's
        return answers.pop(0) if answers and said is Said.DONE else said

    monkeypatch.setattr(KafkaLog, "commit", commit)
    for value in ("1", "2", "3"):
        end = writer.append(some(value), token)
        assert isinstance(end, LogToken)
        token = end
    assert answers == []
    assert values(bootstrap, name) == [b"1", b"2", b"3"]


def test_a_commit_that_never_arrives_is_made_once_more(
    producer: Make, bootstrap: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = producer("a")
    real, lost = KafkaLog.commit, [Said.BROKEN, Said.BROKEN]
    monkeypatch.setattr(KafkaLog, "commit", lambda log: lost.pop() if lost else real(log))
    assert isinstance(writer.append(some("1", "2"), writer.token()), LogToken)
    assert lost == []
    assert values(bootstrap, name) == [b"1", b"2"]


def test_a_doubt_that_nobody_ends_in_time_can_be_ended_later(
    producer: Make, bootstrap: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = producer("a")
    token = writer.token()
    real = KafkaLog.commit

    def commit(log: KafkaLog) -> Said:
        real(log)
        return Said.AGAIN

    with monkeypatch.context() as patch:
        patch.setattr(KafkaLog, "commit", commit)
        with pytest.raises(AppendInDoubtError, match="All of it is there, or nothing") as raised:
            writer.append(some("1"), token, timeout_s=1.0)
    append_id = raised.value.append_id
    assert writer.append(some("1"), token, append_id=append_id) == token.at(0)
    assert values(bootstrap, name) == [b"1"]


def test_an_undecided_transaction_of_a_stranger_is_named(
    producer: Make, bootstrap: str, name: str
) -> None:
    """It is not ours to end: brokers do, after its time-out."""
    stranger = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"stranger-{name}"})
    stranger.init_transactions()
    stranger.begin_transaction()
    stranger.produce(name, b"undecided")
    assert stranger.flush(WAIT_S) == 0
    writer = producer("a")
    token = writer.token()
    with pytest.raises(LogBlockedError, match=f"stranger-{name}") as raised:
        writer.append(some("1"), token, timeout_s=1.0)
    assert raised.value.offset == 0
    stranger.abort_transaction()
    assert isinstance(writer.append(some("1"), token), LogToken)


# ---- bulk load -----------------------------------------------------------------------------------


def test_a_load_that_is_killed_again_and_again_has_each_record_once(
    producer: Make, bootstrap: str, name: str
) -> None:
    chance = random.Random(7)
    for _ in range(6):
        with to_be_killed(
            "tests.support.loading", {"bootstrap.servers": bootstrap}, name, chance.randrange(1_500)
        ):
            pass
    writer = producer("loader")
    loaded = writer.bulk_load(load_records())
    assert loaded.count == 5_000
    assert loaded.found < 5_000
    assert writer.bulk_load(load_records()).found == 5_000
    assert values(bootstrap, name) == [it.value for it in load_records()]


def test_a_second_loader_of_the_name_conflicts(producer: Make, bootstrap: str, name: str) -> None:
    first, second = producer("loader"), producer("loader")
    records = load_records()

    def others_first() -> Iterator[NewRecord]:
        yield from records[:3_000]
        assert second.bulk_load(records[:4_000]).count == 4_000
        yield from records[3_000:]

    with pytest.raises(BulkLoadConflictError, match="record number 3000") as raised:
        first.bulk_load(others_first())
    assert raised.value.number == 3_000
    assert first.bulk_load(records).found == 4_000
    assert values(bootstrap, name) == [it.value for it in records]


def test_a_plain_record_within_a_load_stops_it_and_it_can_go_on(
    producer: Make, bootstrap: str, name: str
) -> None:
    writer, records = producer("loader"), load_records()

    def disturbed() -> Iterator[NewRecord]:
        yield from records[:2_000]
        produce({"bootstrap.servers": bootstrap}, name, ["plain"])
        yield from records[2_000:]

    with pytest.raises(BulkLoadConflictError):
        writer.bulk_load(disturbed())
    loaded = writer.bulk_load(records)
    assert loaded.found in (1_000, 2_000)
    found = [it for it in values(bootstrap, name) if it != b"value"]
    assert found == [it.value for it in records]


def test_other_records_than_those_in_the_log_are_refused(producer: Make) -> None:
    writer = producer("loader")
    writer.bulk_load(some("1", "2", "3"))
    for wrong in (some("1", "2", "4", "5"), some("1", "2")):
        with pytest.raises(MisuseError, match="its record number 2 is not the one"):
            writer.bulk_load(wrong)
    assert writer.bulk_load(some("1", "2", "3", "4")).count == 4


def test_a_load_that_retention_has_removed_is_not_made_again_unasked(
    producer: Make, admin: AdminClient, bootstrap: str, name: str
) -> None:
    producer("loader").bulk_load(some("1", "2", "3"))
    place = TopicPartition(name, 0, OFFSET_END)
    admin.delete_records([place])[place].result(WAIT_S)
    with pytest.raises(LogConflictError, match="has no record of this load"):
        producer("loader").bulk_load(some("1", "2", "3", "4"))
    loaded = producer("loader").bulk_load(some("1", "2", "3", "4"), begin=3)
    assert (loaded.found, loaded.count) == (3, 4)
    assert producer("loader").bulk_load(some("1", "2", "3", "4")).found == 4
    assert values(bootstrap, name) == [b"4"]


def test_a_compacted_topic_is_refused_by_a_load(producer: Make, topic: MakeTopic) -> None:
    """Its last record may go. A check-and-set does without."""
    compacted = topic(config={"cleanup.policy": "compact"})
    writer = producer("loader", compacted)
    with pytest.raises(MisuseError, match=f"{compacted} is compacted"):
        writer.bulk_load([NewRecord(b"key", b"1")])
    assert isinstance(writer.append([NewRecord(b"key", b"1")], writer.token()), LogToken)


@pytest.mark.parametrize("wrong", [-1, 1.5, "3", True])
def test_a_begin_that_is_no_number_of_a_record_is_refused(producer: Make, wrong: Any) -> None:
    with pytest.raises(MisuseError):
        producer("loader").bulk_load(some("1"), begin=wrong)


# ---- bad input -----------------------------------------------------------------------------------


def test_a_token_that_does_not_fit_is_refused(producer: Make, bootstrap: str, name: str) -> None:
    writer = producer("a")
    token = writer.append(some("1"), writer.token())
    assert isinstance(token, LogToken)
    for wrong, problem in (
        (LogToken(bytes(16), 0, 0), "is of another topic"),
        (LogToken("an id", 0, 0), "is of another topic .its id is an id"),  # type: ignore[arg-type]
        (LogToken(token.topic_id, 1, 0), "is of partition 1"),
        (token.at(-2), "names offset -2"),
        (token.at(1_000), r"names offset 1000, and the log ends at [12]\."),  # 2 with the marker
    ):
        with pytest.raises(LogTokenError, match=problem):
            writer.append(some("2"), wrong)
        with pytest.raises(LogTokenError, match=problem):
            writer.read(wrong)
    assert values(bootstrap, name) == [b"1"]


def calls_of(writer: ConditionalProducer, token: LogToken) -> list[Callable[[], object]]:
    """Each call that asks a client for something."""
    return [
        writer.token,
        writer.take_over,
        writer.first_offset,
        lambda: writer.read(token),
        lambda: writer.append(some("2"), token),
        lambda: writer.bulk_load(some("2")),
        lambda: writer.last_tagged(""),
    ]


def test_one_thread_at_a_time_calls_a_producer(
    producer: Make, bootstrap: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the reads of two threads would mix, and an append would end in an AssertionError."""
    writer = producer("a")
    token = writer.token()
    real, refused = KafkaLog.commit, list[str]()

    def commit(log: KafkaLog) -> Said:
        def others() -> None:
            for call in (*calls_of(writer, token), writer.close):
                try:
                    call()
                except MisuseError as error:
                    refused.append(error.problem)

        other = threading.Thread(target=others)
        other.start()
        other.join(WAIT_S)
        return real(log)

    monkeypatch.setattr(KafkaLog, "commit", commit)
    assert writer.append(some("1"), token) == token.at(0)
    assert refused == ["another thread is in a call of it"] * 8
    assert values(bootstrap, name) == [b"1"]


def test_a_closed_producer_makes_no_new_clients(producer: Make) -> None:
    writer = producer("a")
    token = writer.token()
    writer.close()
    writer.close()
    for call in calls_of(writer, token):
        with pytest.raises(MisuseError, match="producer a: it is closed"):
            call()


def test_a_partition_or_a_topic_that_is_missing_is_told(producer: Make, name: str) -> None:
    with pytest.raises(ConfigError, match=f"partition=7 does not exist: {name} has the partitions"):
        producer("a", name, 7)
    with pytest.raises(TopicMissingError, match="missing"):
        producer("a", "missing")
    with pytest.raises(MisuseError, match="A name has 1 to 249"):
        producer("")


def test_what_is_too_large_is_not_there(producer: Make, bootstrap: str, topic: MakeTopic) -> None:
    small = topic(config={"max.message.bytes": "2000"})
    writer = producer("a", small)
    token = writer.token()
    with pytest.raises(RecordTooLargeError, match=small):
        writer.append([*some("1"), NewRecord(None, bytes(3_000)), *some("2")], token)
    with pytest.raises(AppendTooLargeError):
        writer.append(some("1") * 100_001, token)
    with pytest.raises(MisuseError, match="no records"):
        writer.append([], token)
    with pytest.raises(MisuseError, match="append_id has 3 bytes"):
        writer.append(some("1"), token, append_id=b"abc")
    many: Sequence[NewRecord] = [NewRecord(None, bytes(500))] * 50
    assert isinstance(writer.append(many, token), LogToken), "it goes in batches that fit"
    assert len(values(bootstrap, small)) == 50


def test_a_topic_that_is_made_again_is_another_one(
    producer: Make, admin: AdminClient, name: str, bootstrap: str
) -> None:
    writer = producer("a")
    token = writer.append(some("1"), writer.token())
    assert isinstance(token, LogToken)
    admin.delete_topics([name])[name].result(WAIT_S)
    eventually(lambda: name not in admin.list_topics(timeout=WAIT_S).topics)
    make_again(admin, name)
    with pytest.raises(LogRecreatedError, match="deleted and made again"):
        writer.append(some("2"), token)
    assert values(bootstrap, name) == []
    assert isinstance(producer("b").append(some("3"), producer("c").token()), LogToken)


def make_again(admin: AdminClient, name: str) -> None:
    """A broker may know the old one for a while."""

    def is_made() -> bool:
        try:
            create_topic(admin, name)
        except KafkaException:
            return False
        return True

    eventually(is_made)
