"""`coop-consumer clean` on a real broker: no Spark, and no hang at the end of a source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer.cli.app import app
from coop_consumer.config import Config
from coop_consumer.errors import ExitCode
from coop_consumer.kafka.topics import LATEST, Topics
from coop_consumer.patterns import cleaning
from coop_consumer.patterns.seen import with_source
from tests.support.brokers import MakeTopic
from tests.support.journal import WAIT_S
from tests.support.stock import eventually, records_of
from tests.support.topics import ADMIN_TIMEOUT_S, create_topic

pytestmark = pytest.mark.integration


NewProcess = Callable[[], None]


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> NewProcess:
    """Forget what this process has seen in targets, as one that has just begun."""
    return lambda: monkeypatch.setattr(cleaning, "_remembered", {})


def clean(bootstrap: str, source: str, target: str, *options: str) -> Result:
    return CliRunner().invoke(app, ["clean", source, target, "--bootstrap", bootstrap, *options])


def rows(result: Result) -> list[tuple[int, ...]]:
    """What the table says: partition, read, copied, repeats."""
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    return [tuple(map(int, words)) for words in lines if words and words[0].isdigit()]


def write(producer: Any, topic: str, offsets: list[int], partition: int = 0) -> None:
    """Outputs of records of orders-0."""
    for offset in offsets:
        headers = with_source([], TopicPartition("orders", 0), offset)
        producer.produce(topic, b"%d" % offset, b"k", partition, headers=headers)
    assert producer.flush(WAIT_S) == 0


def values(
    bootstrap: str, topic: str, partition: int = 0, *, below_open: bool = False
) -> list[bytes | None]:
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    found = records_of(settings, topic, partition, below_open=below_open)
    return [it.value() for it in found]


def test_each_record_is_copied_once_and_the_next_call_goes_on(
    bootstrap: str, topic: MakeTopic
) -> None:
    source, target = topic(2), topic(2)
    producer = Producer({"bootstrap.servers": bootstrap})
    write(producer, source, [0, 1, 2, 1, 2, 3])
    write(producer, source, [10], 1)
    assert rows(clean(bootstrap, source, target)) == [(0, 6, 4, 2), (1, 1, 1, 0)]
    write(producer, source, [3, 4])
    assert rows(clean(bootstrap, source, target)) == [(0, 2, 1, 1), (1, 0, 0, 0)]
    assert values(bootstrap, target) == [b"0", b"1", b"2", b"3", b"4"]
    assert values(bootstrap, target, 1) == [b"10"]


@pytest.mark.parametrize("records", [3, 0], ids=["records", "nothing"])
@pytest.mark.parametrize("ends", ["commit", "aborts"])
def test_a_source_may_end_with_markers_and_aborted_records(
    bootstrap: str, topic: MakeTopic, group_id: str, records: int, ends: str
) -> None:
    """A reader of committed records gets nothing of this tail, and must get to its end."""
    source, target = topic(), topic()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": group_id})
    producer.init_transactions(WAIT_S)
    if records or ends == "commit":
        producer.begin_transaction()
        write(producer, source, [*range(records)])
        producer.commit_transaction(WAIT_S)
    if ends == "aborts":
        for number in range(3):
            producer.begin_transaction()
            write(producer, source, [100 + number] * 5)
            producer.abort_transaction(WAIT_S)
    assert rows(clean(bootstrap, source, target)) == [(0, records, records, 0)]
    assert rows(clean(bootstrap, source, target)) == [(0, 0, 0, 0)]
    assert values(bootstrap, target) == [b"%d" % offset for offset in range(records)]


def test_a_source_that_has_lost_records_is_told_and_another_name_goes_on(
    bootstrap: str, topic: MakeTopic, admin: AdminClient
) -> None:
    source, target = topic(), topic()
    producer = Producer({"bootstrap.servers": bootstrap})
    write(producer, source, [0, 1, 2])
    assert rows(clean(bootstrap, source, target)) == [(0, 3, 3, 0)]
    write(producer, source, [3, 4, 1, 5])
    [removed] = admin.delete_records([Place(source, 0, 5)]).values()
    removed.result(ADMIN_TIMEOUT_S)
    told = clean(bootstrap, source, target)
    assert told.exit_code == ExitCode.STOPPED
    assert f"goes on at offset 3 of {source}-0, which begins at 5" in told.stderr
    assert "give another name (name=, --name)" in told.stderr
    assert "reset" not in told.stderr, "there is no such group of members"
    assert rows(clean(bootstrap, source, target, "--name", f"{target}.again")) == [(0, 2, 1, 1)]
    assert values(bootstrap, target) == [b"0", b"1", b"2", b"5"]


def test_what_open_transactions_have_written_comes_with_the_next_call(
    bootstrap: str, topic: MakeTopic, group_id: str
) -> None:
    source, target = topic(), topic()
    write(Producer({"bootstrap.servers": bootstrap}), source, [0, 1])
    stranger = Producer({"bootstrap.servers": bootstrap, "transactional.id": group_id})
    stranger.init_transactions(WAIT_S)
    stranger.begin_transaction()
    write(stranger, source, [2])
    assert rows(clean(bootstrap, source, target)) == [(0, 2, 2, 0)]
    stranger.commit_transaction(WAIT_S)
    ends_at_4 = {TopicPartition(source, 0): 4}  # with its marker
    topics = Topics(Config.from_dict({"bootstrap.servers": bootstrap, "group.id": group_id}))
    eventually(lambda: topics.offsets(ends_at_4, LATEST, committed=True), ends_at_4.__eq__)
    assert rows(clean(bootstrap, source, target)) == [(0, 1, 1, 0)]
    assert values(bootstrap, target) == [b"0", b"1", b"2"]


def test_a_target_that_was_made_again_gets_everything_again(
    bootstrap: str, topic: MakeTopic, admin: AdminClient
) -> None:
    """Its place in the source is about copies that are gone."""
    source, target = topic(), f"{topic()}-again"
    write(Producer({"bootstrap.servers": bootstrap}), source, [0, 1, 1])
    for _ in range(2):
        eventually(lambda: is_made(admin, target))
        assert rows(clean(bootstrap, source, target)) == [(0, 3, 2, 1)]
        assert values(bootstrap, target) == [b"0", b"1"]
        admin.delete_topics([target])[target].result(ADMIN_TIMEOUT_S)


def is_made(admin: AdminClient, name: str) -> bool:
    try:
        create_topic(admin, name)
    except KafkaException:  # the deletion of the one before is under way
        return False
    return True


def test_a_process_that_knows_nothing_learns_of_the_target_what_is_there(
    bootstrap: str, topic: MakeTopic, new_process: NewProcess
) -> None:
    source, target = topic(), topic()
    write(Producer({"bootstrap.servers": bootstrap}), source, [*range(10)])
    assert rows(clean(bootstrap, source, target)) == [(0, 10, 10, 0)]
    new_process()
    again = clean(bootstrap, source, target, "--name", f"{target}.again")
    assert rows(again) == [(0, 10, 0, 10)]
    new_process()  # it reads the target's offsets 6 to 10, the last of which is a marker
    bounded = clean(bootstrap, source, target, "--name", f"{target}.third", "--look-back", "5")
    assert rows(bounded) == [(0, 10, 6, 4)]


def test_copies_above_a_strangers_open_transaction_are_not_overlooked(
    bootstrap: str,
    topic: MakeTopic,
    group_id: str,
    new_process: NewProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = topic(), topic()
    write(Producer({"bootstrap.servers": bootstrap}), source, [0, 1, 2])
    stranger = Producer({"bootstrap.servers": bootstrap, "transactional.id": group_id})
    stranger.init_transactions(WAIT_S)
    stranger.begin_transaction()
    copy, note = cleaning.copy_to, cleaning.note_records
    written: list[int] = []

    def copy_to(*given: Any) -> None:
        if not written:
            written.append(1)
            write(stranger, target, [99])
        copy(*given)

    def note_records(*given: Any) -> None:
        stranger.abort_transaction(WAIT_S)
        note(*given)

    monkeypatch.setattr(cleaning, "copy_to", copy_to)
    assert rows(clean(bootstrap, source, target)) == [(0, 3, 3, 0)]
    assert values(bootstrap, target, below_open=True) == [], "the stranger's transaction hides them"
    new_process()
    monkeypatch.setattr(cleaning, "note_records", note_records)
    again = clean(bootstrap, source, target, "--name", f"{target}.again")
    assert rows(again) == [(0, 3, 0, 3)]
    assert values(bootstrap, target) == [b"0", b"1", b"2"]


def test_what_cannot_be_cleaned_is_refused_with_the_option_that_helps(
    bootstrap: str, topic: MakeTopic
) -> None:
    source, target = topic(), topic()
    two = topic(2)
    told = clean(bootstrap, source, two)
    assert told.exit_code == ExitCode.USAGE
    assert f"Create {two} with 1 partition." in told.stderr
    assert clean(bootstrap, source, f"{target}-missing").exit_code == ExitCode.MISSING
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(source, b"a", b"k", 0)
    assert producer.flush(WAIT_S) == 0
    told = clean(bootstrap, source, target)
    assert told.exit_code == ExitCode.USAGE
    assert f"{source}-0 offset 0 has not the headers source.partition, source.offset" in told.stderr
    assert "--unidentified copy" in told.stderr
    assert "what was copied stays" in told.stderr
    assert rows(clean(bootstrap, source, target, "--unidentified", "copy")) == [(0, 1, 1, 0)]
    told = clean(bootstrap, source, target, "--identity", ",")
    assert told.exit_code == ExitCode.USAGE
    assert "identity" in told.stderr
    for name in ("a b", " ", ""):  # it is in transactional ids
        told = clean(bootstrap, source, target, "--name", name)
        assert told.exit_code == ExitCode.USAGE
        assert "--name" in told.stderr
