"""Keyed state on a real broker: counts are right, whatever happens to members and ranges."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from assignors import TopicPartition, key_hash
from coop_consumer import Context, Owner, Record, Worker, WorkerPool
from coop_consumer.errors import (
    BrokerUnreachableError,
    ChangelogError,
    CoopConsumerError,
    MisuseError,
    RecordTooLargeError,
    UnexpectedAnswerError,
    WorkerFlushError,
)
from coop_consumer.kafka.membership import leave_for
from coop_consumer.kafka.topics import Topics
from coop_consumer.state.entry import decode
from tests.support.counting import (
    Counts,
    changelog_of,
    count_all,
    counting,
    counts,
    written,
)
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.killed import to_be_killed
from tests.support.pools import RefusedError
from tests.support.stock import eventually, keys_of
from tests.support.topics import ADMIN_TIMEOUT_S, create_topic

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]

KEYS = keys_of(2_000, 40)


@pytest.fixture(autouse=True)
def no_changelog_left(admin: AdminClient, group_id: str) -> Iterator[None]:
    yield
    names = [it for it in admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics if group_id in it]
    left = [name for name in names if name.endswith("-state")]
    for deleted in (admin.delete_topics(left) if left else {}).values():
        deleted.result(ADMIN_TIMEOUT_S)


def test_counts_are_right_and_the_changelog_has_them(
    job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    orders = job(partitions=2)
    orders.produce(KEYS)
    count_all(orders, Counts())
    assert counts(written(orders)) == Counter(KEYS)
    more = keys_of(200, 50)
    orders.produce(more)
    worker = Counts()
    count_all(orders, worker)
    assert counts(written(orders)) == Counter([*KEYS, *more])
    assert worker.counters.read >= 40
    assert list(tmp_path.iterdir()) == []


def test_state_moves_with_its_range_and_back_while_records_flow(job: MakeJob) -> None:
    orders, produced = job(), 0
    first = Counts()
    with counting(orders, first):
        for turn in (1, 2):
            produced += len(orders.produce(KEYS))
            second = Counts()
            with counting(orders, second):
                produced += len(orders.produce(KEYS))
                second.wait_for_ranges()
                produced += len(orders.produce(KEYS))
                second.wait(1)
            produced += len(orders.produce(KEYS))
            # Back here, before another comes: else the ranges might go from one to the next.
            first.wait_for_restores(1 + turn)
        orders.wait_for_lag(0)
    assert counts(written(orders)) == Counter(KEYS * (produced // len(KEYS)))


def test_after_a_kill_another_member_counts_on(job: MakeJob, tmp_path: Path) -> None:
    orders = job()
    orders.produce(KEYS)
    worker = Counts()
    with to_be_killed(
        "tests.support.counting", {**orders.settings, "state.dir": str(tmp_path)}, orders.topic, 500
    ):
        pass
    count_all(orders, worker)
    assert counts(written(orders)) == Counter(KEYS)
    assert worker.counters.applied >= 1


def test_a_warm_store_reads_only_what_came_since(job: MakeJob, tmp_path: Path) -> None:
    orders, warm = job(), {"state.dir": str(tmp_path)}
    orders.produce(KEYS)
    with counting(orders, Counts(), **warm):
        orders.wait_for_lag(0)
    again = Counts()
    with counting(orders, again, **warm):
        again.wait_for_ranges()
    assert (again.counters.restores, again.counters.read) == (1, 0)
    more, before = keys_of(30, 10), len(written(orders))
    orders.produce(more)
    elsewhere = Counts()
    count_all(orders, elsewhere)
    assert elsewhere.counters.read == before
    since = len(written(orders)) - before
    again = Counts()
    orders.produce(more)
    with counting(orders, again, **warm):
        orders.wait_for_lag(0)
    assert (again.counters.read, again.counters.applied) == (since, since)
    assert counts(written(orders)) == Counter([*KEYS, *more, *more])


def test_a_killed_process_leaves_a_store_that_the_next_one_can_use(
    job: MakeJob, tmp_path: Path
) -> None:
    orders = job(**{"state.dir": str(tmp_path)})
    orders.produce(KEYS)
    count_all(orders, Counts())
    before = len(written(orders))
    orders.produce(KEYS)
    with to_be_killed("tests.support.counting", orders.settings, orders.topic, 100):
        pass
    since = len(written(orders)) - before
    worker = Counts()
    count_all(orders, worker)
    assert counts(written(orders)) == Counter([*KEYS, *KEYS])
    assert since > 4
    assert worker.counters.read <= 4, "what came since its checkpoint, by at most four threads"


def test_a_cold_store_gets_its_range_alone(job: MakeJob) -> None:
    orders = job()
    orders.produce(KEYS)
    first, second = Counts(), Counts()
    with counting(orders, first):
        orders.wait_for_lag(0)
        with counting(orders, second) as pool:
            second.wait_for_ranges()
            tp = TopicPartition(orders.topic, 0)
            [(_, ranges)] = eventually(pool.assignment).items()
            log = written(orders)
            mine = [key for _, key, _ in log if any(key_hash(key) in it for it in ranges)]
            assert 0 < len(mine) < len(log)
            assert (second.counters.read, second.counters.applied) == (len(log), len(mine))
            assert pool._work.changelog is not None
            shard = pool._work.changelog._shards[tp]
            assert {key for _, key, _ in log if shard.stored(key)} == set(mine)


def test_a_restore_waits_for_brokers_that_do_not_answer(
    job: MakeJob, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    orders, answers = job(), Topics.offsets
    refusals: list[CoopConsumerError] = [
        UnexpectedAnswerError("topic t", "Leader epoch is older than broker epoch"),
        BrokerUnreachableError("b:9092", "silent for 10 s"),
    ]

    def offsets(topics: Topics, *args: Any) -> dict[TopicPartition, int]:
        if refusals:
            raise refusals.pop()
        return answers(topics, *args)

    monkeypatch.setattr(Topics, "offsets", offsets)
    orders.produce(KEYS)
    count_all(orders, Counts())
    assert refusals == []
    assert caplog.text.count("its state is restored again in 1 s") == 2
    assert counts(written(orders)) == Counter(KEYS)


def test_who_has_a_keys_state_can_be_asked_for(job: MakeJob) -> None:
    orders = job()
    east = WorkerPool(Counts(), {**orders.settings, "host": "e"}, [orders.topic])
    with pytest.raises(MisuseError, match="does not run"):
        east.owner_of(orders.topic, b"k")
    second = Counts()
    with east, counting(orders, second, host="w") as west:
        second.wait_for_ranges()
        [(_, ranges)] = eventually(west.assignment).items()
        for key in map(str.encode, KEYS[:40]):
            is_west = any(key_hash(key) in it for it in ranges)
            owner = Owner(west.name, "w") if is_west else Owner(east.name, "e")
            assert east.owner_of(orders.topic, key) == west.owner_of(orders.topic, key) == owner
        with pytest.raises(MisuseError, match="no partition of a topic"):
            east.owner_of(orders.topic, b"k", 1)


def test_a_record_whose_handler_raised_finds_what_it_found_before(job: MakeJob) -> None:
    orders = job(**{"attempt.backoff.ms": 1})
    found: list[bytes | None] = []

    class Fails(Worker):
        keyed_state = True

        def setup(self, context: Context) -> None:
            self.state = context.state

        def process(self, record: Record) -> None:
            found.append(self.state.get(record))
            self.state.put(record, b"%d" % (int(found[-1] or 0) + 1))
            if record.attempt < 3:
                raise RefusedError

    orders.produce(["k", "k"])
    count_all(orders, Fails())
    assert found == [None, None, None, b"1", b"1", b"1"]
    assert counts(written(orders)) == {"k": 2}


def test_of_many_puts_of_a_key_the_changelog_gets_the_last(job: MakeJob) -> None:
    orders = job()
    orders.produce(["k"] * 500)
    count_all(orders, Counts())
    assert counts(written(orders)) == {"k": 500}
    assert len(written(orders)) < 100


def test_what_the_changelog_would_not_take_is_refused_at_once(job: MakeJob) -> None:
    orders, refused = job(**{"message.max.bytes": "10000"}), []

    def put_much(record: Record) -> None:
        worker.context.state.put(record, b"v" * 9_800)
        try:
            worker.context.state.put(record, b"v" * 9_990)
        except RecordTooLargeError as error:
            refused.append(str(error))

    worker = Counts(after=put_much)
    orders.produce(["k"])
    count_all(orders, worker)
    [told] = refused
    assert changelog_of(orders) in told
    [(_, _, value)] = written(orders)
    assert value is not None
    assert decode(value).now.value == b"v" * 9_800


def test_there_is_no_state_of_a_record_whose_output_got_lost(job: MakeJob) -> None:
    class Loses(Counts):
        def flush(self) -> None:
            raise RefusedError

    orders = job()
    orders.produce(["k"])
    pool = WorkerPool(Loses(), orders.settings, [orders.topic], workers=4)
    pool.start()
    with pytest.raises(WorkerFlushError):
        pool.wait(WAIT_S)
    assert written(orders) == []


def test_what_was_put_before_its_range_was_lost_is_never_sent(
    job: MakeJob, bootstrap: str, group_id: str
) -> None:
    flushing, lost = threading.Event(), threading.Event()
    found: list[int | None] = []

    class Late(Counts):
        def flush(self) -> None:
            if self.done:
                flushing.set()
                assert lost.wait(WAIT_S), "nobody took its ranges"
                eventually(pool._runs.member.is_alive)  # the group counts on it again

        def on_ranges_lost(self, *_: object) -> None:
            lost.set()

    worker = Late(before=lambda record: found.append(worker.context.state.changed_by(record)))
    orders = job()
    orders.produce(["k"])
    with counting(orders, worker) as pool:
        assert flushing.wait(WAIT_S), "nothing was flushed"
        asked = orders.admin.describe_consumer_groups([group_id])[group_id]
        [member] = asked.result(ADMIN_TIMEOUT_S).members
        leave_for({"bootstrap_servers": bootstrap, "group_id": group_id}, member.member_id)
        orders.wait_for_lag(0)
    assert len(found) > 1
    assert set(found) == {None}, "what it finds is what the changelog has"
    assert counts(written(orders)) == {"k": 1}


def test_state_is_for_handlers_on_an_event_loop_and_in_batches_too(job: MakeJob) -> None:
    class Batches(Counts):
        process = Worker.process  # type: ignore[assignment] # one of the two

        async def process_batch(self, records: Sequence[Record]) -> None:  # type: ignore[override]
            for record in records:
                self._count(record)

    orders = job()
    orders.produce(KEYS)
    count_all(orders, Batches())
    assert counts(written(orders)) == Counter(KEYS)


def test_what_is_deleted_stays_so(job: MakeJob, tmp_path: Path) -> None:
    class Toggles(Worker):
        keyed_state = True

        def setup(self, context: Context) -> None:
            self.state = context.state

        def process(self, record: Record) -> None:
            if self.state.get(record) is None:
                self.state.put(record, b"1")
            else:
                self.state.delete(record)

    orders = job(**{"state.dir": str(tmp_path)})
    orders.produce(["a", "b", "a", "b", "b"])
    count_all(orders, Toggles())
    assert counts(written(orders)) == {"b": 1}
    orders.produce(["a", "b"])
    count_all(orders, Toggles())
    assert counts(written(orders)) == {"a": 1}


def test_a_partition_that_is_added_gets_state(job: MakeJob) -> None:
    orders = job(**{"topics.watch.interval.ms": 1_000})
    worker = Counts()
    with counting(orders, worker):
        orders.produce(["k"])
        worker.wait(1)
        made = orders.admin.create_partitions([NewPartitions(orders.topic, 2)])
        made[orders.topic].result(ADMIN_TIMEOUT_S)
        eventually(lambda: worker.held, lambda held: len(held) == 2)
        orders.produce(["k"], 1)
        worker.wait(2)
    grown = Job(orders.client, orders.admin, orders.group, orders.topic, 2)
    assert [number for number, _, _ in written(grown)] == [0, 1]


def test_a_changelog_that_may_not_be_made_or_does_not_fit_is_refused(job: MakeJob) -> None:
    orders = job(**{"state.changelog.create": False})
    pool = WorkerPool(Counts(), orders.settings, [orders.topic])
    with pytest.raises(ChangelogError, match=r"state\.changelog\.create=false"):
        pool.start()
    create_topic(orders.admin, changelog_of(orders), 1, {"cleanup.policy": "delete"})
    pool = WorkerPool(Counts(), orders.settings, [orders.topic])
    with pytest.raises(ChangelogError, match=r"cleanup\.policy=delete"):
        pool.start()


def test_a_changelog_that_is_deleted_ends_the_member_and_commits_nothing_more(
    job: MakeJob,
) -> None:
    orders = job(**{"message.timeout.ms": 2_000})
    orders.produce(["k"])
    worker = Counts()
    pool = WorkerPool(worker, orders.settings, [orders.topic], workers=4)
    pool.start()
    orders.wait_for_lag(0)
    orders.admin.delete_topics([changelog_of(orders)])[changelog_of(orders)].result(WAIT_S)
    orders.produce(["k"])
    with pytest.raises(WorkerFlushError):
        pool.wait(WAIT_S)
    assert orders.committed()[0][0] == 1
