"""What handlers send: checked at once, filed with the attempt, gone with it."""

from __future__ import annotations

import copy
import pickle
from ctypes import c_longlong
from typing import Any

import pytest

from assignors import WHOLE
from coop_consumer import Worker
from coop_consumer.core import actions
from coop_consumer.core.effects import Output
from coop_consumer.core.outputs import FRAME_BYTES, ChildOutputs, Outputs, OutputTopic
from coop_consumer.core.record import Record
from coop_consumer.errors import MisuseError, RecordTooLargeError
from coop_consumer.executors.child import Sent, _ChildsSide, parcel
from tests.unit.core_member import TableMember

TOPICS = {
    "totals": OutputTopic(partitions=3, record_max_bytes=1_000, is_compacted=False),
    "latest": OutputTopic(partitions=1, record_max_bytes=1_000, is_compacted=True),
}


@pytest.fixture
def member() -> TableMember:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    return member


@pytest.fixture
def record(member: TableMember) -> Record:
    [(_, record, _)] = member.running.values()
    return record


@pytest.fixture
def outputs() -> Outputs:
    return Outputs(TOPICS, 1 << 20)


def gone(member: TableMember) -> list[Any]:
    """What has gone along with commits so far."""
    commits = [it for it in member.seen if isinstance(it, actions.Commit)]
    return [effect for it in commits for result in it.results for effect in result.effects]


def test_outputs_go_along_with_their_record_in_the_order_in_which_they_were_sent(
    member: TableMember, record: Record, outputs: Outputs
) -> None:
    outputs.send(record, "totals", b"k", b"1", [("h", b"x"), ("n", None)])
    outputs.send(record, "latest", "k", None, partition=0, timestamp_ms=5)
    assert gone(member) == []
    member.finish(0)
    member.after(1_000)
    assert gone(member) == [
        Output("totals", b"k", b"1", (("h", b"x"), ("n", None)), size=125),
        Output("latest", b"k", None, (), 0, 5, size=101),
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"topic": "total"}, r"topic 'total' is not declared \(latest, totals\)"),
        ({"topic": None}, "topic None is not declared"),
        ({"key": 5}, "the key is int, not bytes"),
        ({"value": ["x"]}, "the value is list, not bytes"),
        ({"topic": "latest", "key": None}, "compacted, so each record needs a key"),
        ({"partition": 3}, "no partition 3, but 3, from 0 on"),
        ({"partition": -1}, "no partition -1"),
        ({"partition": "1"}, "no partition '1'"),
        ({"headers": "abc"}, "are no headers"),
        ({"key": "\udcff"}, "the key is text with a lone surrogate"),
        ({"headers": {"id": b"7"}}, "a dict, are no headers"),
        ({"headers": ["id"]}, "are no headers"),
        ({"headers": [("\udcff", b"")]}, "are no headers"),
        ({"headers": [("a", "\udcff")]}, "header a is text with a lone surrogate"),
        ({"headers": [("a", 5)]}, "header a is int"),
        ({"headers": [(b"a", b"b")]}, "are no headers"),
        ({"headers": 7}, "are no headers"),
        ({"headers": None}, "a NoneType, are no headers"),
        ({"timestamp_ms": -5}, "timestamp"),
        ({"timestamp_ms": "now"}, "timestamp"),
        ({"timestamp_ms": 2**63}, "timestamp"),
    ],
)
def test_what_no_broker_would_take_is_refused_where_the_handler_can_still_choose(
    record: Record, outputs: Outputs, given: dict[str, Any], told: str
) -> None:
    call: dict[str, Any] = {"topic": "totals", "key": b"k", "value": b"v", **given}
    with pytest.raises(MisuseError, match=told):
        outputs.send(record, **call)
    assert not record.tenure.effects


def test_a_record_above_the_topics_limit_is_refused(record: Record, outputs: Outputs) -> None:
    largest = b"x" * (1_000 - FRAME_BYTES - 1)
    outputs.send(record, "totals", b"k", largest)
    for more in ({"value": largest + b"x"}, {"headers": [("h", b"")]}):
        call: dict[str, Any] = {"key": b"k", "value": largest, **more}
        with pytest.raises(RecordTooLargeError, match="topic totals"):
            outputs.send(record, "totals", **call)


def test_one_record_cannot_send_more_than_may_wait(member: TableMember, record: Record) -> None:
    outputs, value = Outputs(TOPICS, 3_000), b"x" * 800
    for _ in range(3):
        outputs.send(record, "totals", b"k", value)
    with pytest.raises(MisuseError, match=r"output\.max\.bytes=3000"):
        outputs.send(record, "totals", b"k", value)
    member.finish(0)
    member.after(1_000)
    assert len(gone(member)) == 3, "what was sent before goes along"


def test_nothing_is_sent_for_a_record_that_is_done_or_failed_or_a_copy(
    member: TableMember, record: Record, outputs: Outputs
) -> None:
    for other in (copy.copy(record), pickle.loads(pickle.dumps(record))):  # noqa: S301
        with pytest.raises(MisuseError, match="is a copy"):
            outputs.send(other, "totals", b"k", b"v")
    not_one: Any = "what might be a value"
    with pytest.raises(MisuseError, match="str is no record") as refused:
        outputs.send(not_one, "totals", b"k", b"v")
    assert "value" not in str(refused.value), "it would be in the log"
    outputs.send(record, "totals", b"k", b"of the attempt that fails")
    member.fail(0)
    with pytest.raises(MisuseError, match=r"this attempt at it \(attempt 1\) has failed"):
        outputs.send(record, "totals", b"k", b"v")
    member.after(60_000)
    member.start()
    [(_, second, _)] = member.running.values()
    outputs.send(second, "totals", b"k", b"of the second")
    member.finish(0)
    with pytest.raises(MisuseError, match="t-0@0 is finished"):
        outputs.send(second, "totals", b"k", b"v")
    member.after(1_000)
    assert [output.value for output in gone(member)] == [b"of the second"]


def test_a_record_of_another_member_is_refused(member: TableMember, record: Record) -> None:
    ours = Outputs(TOPICS, 1 << 20, owner=("billing", "m1"))
    ours.send(record, "totals", b"k", b"v")
    for owner in ("billing", "m2"), ("shipping", "m1"):
        theirs = Outputs(TOPICS, 1 << 20, owner=owner)
        with pytest.raises(MisuseError, match="t-0@0 is another member's: m1"):
            theirs.send(record, "totals", b"k", b"v")
        with pytest.raises(MisuseError, match="is a copy"):
            theirs.send(copy.copy(record), "totals", b"k", b"v")
    member.finish(0)
    member.after(1_000)
    assert len(gone(member)) == 1


def test_a_child_process_keeps_what_is_sent_until_the_record_has_ended(
    record: Record, outputs: Outputs
) -> None:
    there = pickle.loads(pickle.dumps(outputs))  # noqa: S301
    assert isinstance(there, ChildOutputs)
    copied = copy.copy(record)
    with pytest.raises(MisuseError, match="or has ended"):
        there.send(copied, "totals", b"k", b"before")
    there.open.begin([copied])
    there.send(copied, "totals", b"k", b"1")
    there.send(copied, "totals", b"k", b"2")
    assert [output.value for output in there.open.end(copied)] == [b"1", b"2"]
    with pytest.raises(MisuseError, match="or has ended"):
        there.send(copied, "totals", b"k", b"after")
    with pytest.raises(MisuseError, match="not declared"):
        there.send(copied, "elsewhere", b"k", b"after")


class SendsThere(Worker):
    """Sends the offset of each record, from a child process."""

    def __init__(self, outputs: ChildOutputs) -> None:
        self.sent = outputs

    def process(self, record: Record) -> None:
        self.sent.send(record, "totals", record.key, str(record.offset))

    def process_batch(self, records: Any) -> None:
        for record in records:
            self.process(record)


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_child_tells_what_a_record_has_sent_before_it_counts_it_as_done(
    member: TableMember, outputs: Outputs, kind: type
) -> None:
    """The other way round, a record would be done without its outputs if the child died then."""
    member.produce(b"b", b"c")
    member.start()
    records = [record for _, record, _ in member.running.values()]
    there = pickle.loads(pickle.dumps(outputs))  # noqa: S301
    progress, told = c_longlong(-1), []

    class Pipe:
        def send(self, message: object) -> None:
            if isinstance(message, Sent):
                told.append((message.number, progress.value))

    pipe: Any = Pipe()
    side = _ChildsSide(SendsThere(there), pipe, pipe, progress)
    side._open = there.open
    side._work_off(kind(parcel(n, record) for n, record in enumerate(records)))
    assert len(told) == len(records) == 3
    assert all(counted <= number for number, counted in told), told
