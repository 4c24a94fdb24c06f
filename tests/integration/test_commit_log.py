"""A commit log on a real broker: leaders that come and fall, snapshots, and what does not fit."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from coop_consumer.errors import (
    ConfigError,
    LogRecreatedError,
    MisuseError,
    PublisherFencedError,
    RecordTooLargeError,
    SnapshotError,
)
from coop_consumer.logs import (
    Applied,
    CommitLog,
    ConditionalProducer,
    Conflict,
    LogToken,
    NewRecord,
)
from coop_consumer.logs.kafka_reader import CommittedReader
from coop_consumer.logs.snapshot_topic import SnapshotTopic
from tests.support.brokers import MakeTopic
from tests.support.journal import WAIT_S
from tests.support.killed import to_be_killed
from tests.support.registers import Registers, put
from tests.support.snapshotting import STEPS
from tests.support.stock import eventually, records_of
from tests.support.topics import create_topic, set_topic, truncate

pytestmark = pytest.mark.integration

Open = Callable[[str], tuple[CommitLog, Registers]]


@pytest.fixture
def name(topic: MakeTopic, admin: AdminClient) -> Iterator[str]:
    made = topic()
    yield made
    if (snapshots := f"{made}-snapshots") in admin.list_topics(timeout=WAIT_S).topics:
        admin.delete_topics([snapshots])[snapshots].result(WAIT_S)


@pytest.fixture
def opened(bootstrap: str, name: str) -> Iterator[Open]:
    """Open the log: `log, machine = opened("a")`."""
    with ExitStack() as logs:

        def open_it(writer: str) -> tuple[CommitLog, Registers]:
            machine = Registers()
            settings = {"bootstrap.servers": bootstrap}
            log = CommitLog.open(settings, name, 0, writer, machine)
            return logs.enter_context(log), machine

        yield open_it


def test_many_callers_share_appends(opened: Open, bootstrap: str, name: str) -> None:
    log, machine = opened("a")
    answers = [log.append_later([put(f"{n % 7}", n), put("last", n)]) for n in range(500)]
    assert all(isinstance(it.result(WAIT_S), Applied) for it in answers)
    assert machine.values["last"] == 499
    assert len(records_of({"bootstrap.servers": bootstrap}, name)) == 1_000
    assert len({it.result().token for it in answers}) < 50, "each had an append of its own"


def test_two_leaders_do_no_harm(opened: Open) -> None:
    """Each append is applied by both, once, in one order; none that was answered is lost."""
    leaders = [opened("a"), opened("b")]
    done: list[list[int]] = [[], []]

    def lead(which: int) -> None:
        log, _ = leaders[which]
        number = 0
        while len(done[which]) < 30:
            number += 1
            value = which * 1_000_000 + number
            if isinstance(log.append([put("x", value), put(f"{value}", value)]), Applied):
                done[which].append(value)

    threads = [threading.Thread(target=lead, args=(which,)) for which in range(2)]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    states = [log.read(lambda it=machine: dict(it.values)) for log, machine in leaders]
    assert states[0] == states[1]
    assert {key for key in states[0] if key != "x"} == {str(it) for it in done[0] + done[1]}
    assert leaders[0][1].offsets == leaders[1][1].offsets


def test_a_follower_that_leads_goes_on_where_the_leader_fell(
    opened: Open, bootstrap: str, name: str
) -> None:
    """It was killed in its transaction: the next one ends that, and nobody sees any of it."""
    follower, machine = opened("next")
    with to_be_killed("tests.support.snapshotting", {"bootstrap.servers": bootstrap}, name, -1):
        pass
    assert isinstance(follower.append([put("y", 1)]), Conflict | Applied)
    assert isinstance(follower.append([put("y", 2)]), Applied)
    assert machine.values["y"] == 2
    assert machine.values["x"] == 2, "what it was answered for is there, and no more"


def test_the_next_leader_begins_with_the_snapshot(
    opened: Open, admin: AdminClient, name: str
) -> None:
    first, _ = opened("a")
    for number in range(5):
        first.append([put("x", number), put("y", -number)])
    token = first.snapshot()
    first.append([put("x", "newest")])
    truncate(admin, name, {0: token.offset + 1})
    second, machine = opened("b")
    assert machine.values == {"x": "newest", "y": -4}
    assert len(machine.offsets) == 1, "only what the snapshot has not"
    assert isinstance(second.append([put("z", 1)]), Applied)
    assert second.snapshot() == second.token
    third, machine = opened("c")
    assert machine.values == {"x": "newest", "y": -4, "z": 1}
    assert third.token == second.token


@pytest.mark.parametrize("step", range(len(STEPS)), ids=STEPS)
def test_who_is_killed_while_it_writes_a_snapshot_leaves_the_one_before(
    opened: Open, bootstrap: str, name: str, step: int
) -> None:
    first, _ = opened("a")
    first.append([put("x", "before")])
    first.snapshot()
    with to_be_killed("tests.support.snapshotting", {"bootstrap.servers": bootstrap}, name, step):
        pass
    second, machine = opened("b")
    assert machine.values == {"x": 2}
    is_newer = STEPS[step] == "after commit"
    assert len(machine.offsets) == (0 if is_newer else 2)
    assert second.snapshot() == second.token


def test_a_second_writer_of_snapshots_fences_the_first(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = opened("a")
    second, _ = opened("b")
    first.append([put("x", 1)])
    second.sync()
    real = SnapshotTopic.write

    def write(store: SnapshotTopic, token: LogToken, parts: Any) -> None:
        def overtaken() -> Iterator[bytes]:
            monkeypatch.setattr(SnapshotTopic, "write", real)
            second.snapshot()
            yield from parts

        real(store, token, overtaken())

    monkeypatch.setattr(SnapshotTopic, "write", write)
    with pytest.raises(PublisherFencedError):
        first.snapshot()
    assert first.snapshot() == first.token


def test_a_log_without_its_beginning_and_without_a_snapshot_is_refused(
    opened: Open, admin: AdminClient, name: str
) -> None:
    log, _ = opened("a")
    log.append([put("x", 1)])
    log.append([put("x", 2)])
    truncate(admin, name, {0: 2})
    with pytest.raises(SnapshotError, match="is missing, and the log begins at offset 2"):
        opened("b")


def test_a_state_that_the_logs_beginning_has_overtaken_does_not_go_on(
    opened: Open, admin: AdminClient, name: str
) -> None:
    late, machine = opened("late")
    late.append([put("x", 1)])
    other, _ = opened("b")
    for number in range(5):
        other.append([put("y", number)])
    token = other.snapshot()
    truncate(admin, name, {0: token.offset + 1})
    other.append([put("z", 1)])
    with pytest.raises(SnapshotError, match="is needed: this state is as of offset"):
        late.read(lambda: None)
    with pytest.raises(SnapshotError, match="Close this log and open it again"):
        late.append([put("x", 2)])
    assert machine.values == {"x": 1}
    _, machine = opened("c")
    assert machine.values == {"x": 1, "y": 4, "z": 1}


def test_a_beginning_that_is_removed_while_it_is_read_is_told_as_if_it_had_been_gone(
    opened: Open, admin: AdminClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that is under way gets another answer than one that begins, and not another end."""
    late, machine = opened("late")
    other, _ = opened("b")
    for number in range(5):
        other.append([put("y", number)])
    real, is_removed = CommittedReader._read_to, list[int]()

    def read_to(reader: CommittedReader, *given: Any, **more: Any) -> Any:
        if not is_removed:
            is_removed.append(1)
            truncate(admin, name, {0: 8})
        return real(reader, *given, **more)

    monkeypatch.setattr(CommittedReader, "_read_to", read_to)
    with pytest.raises(SnapshotError, match="is needed: this state is as of offset"):
        late.sync()
    assert is_removed
    assert machine.values == {}


def test_a_forked_child_uses_no_log_of_its_parents(opened: Open, bootstrap: str, name: str) -> None:
    log, _ = opened("a")
    with ConditionalProducer({"bootstrap.servers": bootstrap}, name, 0, "b") as producer:
        token = producer.token()
        child = os.fork()
        if not child:
            refused = 0
            for ask in (log.sync, producer.token, lambda: producer.append([put("x", 1)], token)):
                try:
                    ask()
                except MisuseError:
                    refused += 1
            os._exit(0 if refused == 3 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert isinstance(producer.append([put("x", 1)], token), LogToken)
    assert isinstance(log.append([put("x", 2)]), Conflict)


def test_snapshots_of_a_topic_that_was_made_again_are_refused(
    opened: Open, admin: AdminClient, name: str
) -> None:
    log, _ = opened("a")
    log.append([put("x", 1)])
    log.snapshot()
    admin.delete_topics([name])[name].result(WAIT_S)
    eventually(lambda: name not in admin.list_topics(timeout=WAIT_S).topics)
    eventually(lambda: _is_made(admin, name))
    with pytest.raises(LogRecreatedError, match="made again"):
        log.append([put("x", 2)])
    with pytest.raises(SnapshotError, match="is of another topic or partition"):
        opened("b")


def _is_made(admin: AdminClient, name: str) -> bool:
    try:
        create_topic(admin, name)
    except Exception:  # noqa: BLE001 - a broker may know the old one for a while
        return False
    return True


def test_a_snapshot_that_is_cut_or_changed_is_passed_over(
    opened: Open, bootstrap: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    log, _ = opened("a")
    log.append([put("x", 1), put("y", 2)])
    log.snapshot()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(f"{name}-snapshots", None, b"part-1", 0)
    assert producer.flush(WAIT_S) == 0
    _, machine = opened("b")
    assert machine.values == {"x": 1, "y": 2}
    assert len(machine.offsets) == 2, "it was read from the log"
    told = f"{name}-snapshots-0: the snapshot lacks 1 of its 2 parts, such as 1. It is passed over"
    assert told in caplog.text


def test_a_snapshot_of_a_newer_version_is_not_replaced(
    opened: Open, bootstrap: str, name: str
) -> None:
    log, _ = opened("a")
    log.append([put("x", 1)])
    log.snapshot()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(f"{name}-snapshots", b"\x02 is new", b"vouch", 0)
    assert producer.flush(WAIT_S) == 0
    with pytest.raises(SnapshotError, match="has version 2, and this library writes version 1"):
        log.snapshot()


def test_a_topic_that_would_lose_snapshots_is_refused(
    opened: Open, admin: AdminClient, name: str
) -> None:
    log, _ = opened("a")
    log.append([put("x", 1)])
    log.snapshot()
    set_topic(admin, f"{name}-snapshots", "cleanup.policy", "delete")
    with pytest.raises(SnapshotError, match="has cleanup"):
        log.snapshot()


@pytest.mark.parametrize("retention", ["-1", "604800000"])
def test_a_topic_that_loses_what_no_snapshot_has_is_warned_of(
    opened: Open, admin: AdminClient, name: str, retention: str, caplog: pytest.LogCaptureFixture
) -> None:
    set_topic(admin, name, "retention.ms", retention)
    opened("a")
    told = f"{name}-0: the topic has cleanup.policy=delete with retention.ms={retention}"
    assert (told in caplog.text) == (retention != "-1")


def test_topics_that_only_brokers_and_members_write_are_no_logs(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap}
    for topic in ("__consumer_offsets", "__individual_commit_offsets"):
        with pytest.raises(ConfigError, match=topic):
            CommitLog.open(settings, topic, 0, "a", Registers())
        with pytest.raises(ConfigError, match=topic):
            ConditionalProducer(settings, topic, 0, "a")


def test_a_log_that_has_grown_has_room_for_its_snapshots(
    opened: Open, bootstrap: str, admin: AdminClient, name: str
) -> None:
    log, _ = opened("a")
    log.append([put("x", 1)])
    log.snapshot()
    admin.create_partitions([NewPartitions(name, 2)])[name].result(WAIT_S)
    eventually(lambda: len(admin.list_topics(name, WAIT_S).topics[name].partitions) == 2)
    settings = {"bootstrap.servers": bootstrap}
    with CommitLog.open(settings, name, 1, "a", Registers()) as second:
        second.append([put("y", 2)])
        second.snapshot()
    for partition, values in ((0, {"x": 1}), (1, {"y": 2})):
        machine = Registers()
        with CommitLog.open(settings, name, partition, "b", machine):
            assert (machine.values, machine.offsets) == (values, []), "of its snapshot"


def test_what_is_too_large_hurts_only_its_caller(opened: Open) -> None:
    log, machine = opened("a")
    asked = [
        log.append_later([NewRecord(b"k", bytes(size))]) for size in (1, 2_000_000, 1, 1_500_000, 1)
    ]
    for number, answer in enumerate(asked):
        if number % 2:
            with pytest.raises(RecordTooLargeError):
                answer.result(WAIT_S)
        else:
            assert isinstance(answer.result(WAIT_S), Applied)
    assert len(machine.offsets) == 3


def test_a_record_that_the_topic_refuses_is_told_though_many_are_behind_it(
    opened: Open, admin: AdminClient, name: str
) -> None:
    """librdkafka refuses those behind it for another reason, and may tell of them first."""
    set_topic(admin, name, "max.message.bytes", "3000")
    log, machine = opened("a")
    sizes = [1, 5_000, *[100] * 20_000]
    with pytest.raises(RecordTooLargeError):
        log.append([NewRecord(b"k", bytes(size)) for size in sizes])
    log.append([put("x", 1)])
    assert machine.values == {"x": 1}
