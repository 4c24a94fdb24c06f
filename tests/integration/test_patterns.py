"""Single writers on a real broker: fenced, refused, gone inputs, and what goes on after that."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer.errors import (
    ConfigError,
    LogConflictError,
    MisuseError,
    PublisherFencedError,
    RecordTooLargeError,
    TopicMissingError,
)
from coop_consumer.patterns import (
    Checkpoint,
    ExclusiveProducer,
    MergeLog,
    OffsetChangelog,
    PairedOffsets,
    committed_records,
)
from coop_consumer.patterns.checkpoint import STATE_MAX_BYTES
from coop_consumer.patterns.messages import headers_in
from tests.support.brokers import MakeTopic
from tests.support.journal import WAIT_S
from tests.support.single_writers import ALL, COUNTED, Bench, Writer, position_of
from tests.support.topics import remove_below

pytestmark = pytest.mark.integration


# -- one writer of a name --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_a_second_one_of_a_name_fences_the_first_and_goes_on(
    bench: Bench, kind: type[Writer]
) -> None:
    bench.feed(b"a", b"b", b"c")
    with bench.make(kind) as older:
        bench.go_on(older)
        with bench.make(kind) as newer:
            before = bench.values()
            bench.feed(b"d")
            with pytest.raises(PublisherFencedError, match=bench.name):
                bench.go_on(older)
            assert bench.values() == before
            bench.go_on(newer)
            assert len(bench.values()) > len(before) or kind is MergeLog
        with pytest.raises(MisuseError, match=f"Make a new {kind.__name__}"):
            bench.go_on(older)


@pytest.mark.parametrize("kind", COUNTED)
def test_an_output_whose_end_is_not_its_own_is_refused(bench: Bench, kind: type[Writer]) -> None:
    bench.feed(b"a")
    with bench.make(kind) as writer:
        bench.go_on(writer)
    bench.feed(b"a stranger's", place=bench.output)
    with pytest.raises(LogConflictError, match=rf"{bench.output} offset \d+: .* has no stamp"):
        bench.make(kind)
    bench.name += "-other"
    with pytest.raises(LogConflictError, match="has to be the only writer"):
        bench.make(kind)


def test_an_output_that_another_name_has_written_is_refused(bench: Bench) -> None:
    with bench.make(ExclusiveProducer) as writer:
        bench.go_on(writer)
    first, bench.name = bench.name, f"{bench.name}-other"
    with pytest.raises(LogConflictError, match=f"this record was written by {first}, and"):
        bench.make(ExclusiveProducer)


@pytest.mark.parametrize("kind", [ExclusiveProducer, PairedOffsets, OffsetChangelog])
def test_a_stranger_s_open_transaction_at_the_end_is_waited_for_and_named(
    bench: Bench, kind: type[Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coop_consumer.kafka.log_end.UNDECIDED_S", 0.2)
    ids = {"transactional.id": f"{bench.name}-stranger"}
    stranger = Producer({"bootstrap.servers": str(bench.config["bootstrap.servers"]), **ids})
    stranger.init_transactions(WAIT_S)
    stranger.begin_transaction()
    stranger.produce(bench.output.topic, b"open", partition=0)
    assert stranger.flush(WAIT_S) == 0
    with pytest.raises(LogConflictError, match=f"{bench.output} offset 0: somebody's transaction"):
        bench.make(kind)
    stranger.abort_transaction(WAIT_S)
    bench.feed(b"a")
    with bench.make(kind) as writer:
        bench.go_on(writer)


# -- errors on the way -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ExclusiveProducer, Checkpoint, OffsetChangelog])
def test_after_an_error_nothing_is_visible_and_a_new_one_goes_on(
    bench: Bench, kind: type[Writer]
) -> None:
    bench.feed(b"a", b"b")
    with bench.make(kind) as writer:
        bench.go_on(writer)
        before = bench.values()
        with pytest.raises(ZeroDivisionError):
            _fail_within(bench, writer)
        with pytest.raises(MisuseError, match="a transaction of it has failed"):
            bench.go_on(writer)
    with bench.make(kind) as writer:
        assert bench.values() == before
        assert position_of(writer) == 1
        bench.go_on(writer)


def _fail_within(bench: Bench, writer: Writer) -> None:
    match writer:
        case ExclusiveProducer():
            with writer.transaction():
                writer.put(1, b"void")
                1 / 0  # noqa: B018
        case Checkpoint():
            with writer.transaction(2, "void"):
                writer.write(bench.output.topic, b"void")
                1 / 0  # noqa: B018
        case OffsetChangelog():
            with writer.transaction(1):
                writer.change(b"key", b"void")
                1 / 0  # noqa: B018


@pytest.mark.parametrize("kind", [ExclusiveProducer, Checkpoint, OffsetChangelog])
def test_a_block_that_goes_on_behind_a_refused_record_is_void_nevertheless(
    bench: Bench, kind: type[Writer]
) -> None:
    """Its error has said so. A commit without the record would take its input for done."""
    bench.feed(b"a")
    with bench.make(kind) as writer:
        with pytest.raises(MisuseError, match=r"no record can be made.*transaction is void"):
            _go_on_behind_a_refusal(bench, writer)
        with pytest.raises(MisuseError, match="a transaction of it has failed"):
            bench.go_on(writer)
    assert bench.values() == []
    with bench.make(kind) as writer:
        assert position_of(writer) == 0
        bench.go_on(writer)


def _go_on_behind_a_refusal(bench: Bench, writer: Writer) -> None:
    no_value: Any = 5
    arguments: dict[Any, tuple[object, ...]] = {Checkpoint: (1, "state"), OffsetChangelog: (0,)}
    with writer.transaction(*arguments.get(type(writer), ())), suppress(MisuseError):
        if isinstance(writer, ExclusiveProducer):
            writer.put(0, no_value)
        else:
            writer.write(bench.output.topic, no_value)


def test_a_change_that_apply_does_not_take_is_not_committed(bench: Bench) -> None:
    """Else no restore would ever get past it."""

    def add(state: list[int], _: bytes, value: bytes | None) -> None:
        state.append(int(value or b""))

    operations = {"initial": list[int], "apply": add}
    bench.feed(b"a", b"b")
    with bench.make(OffsetChangelog, **operations) as changelog:
        with changelog.transaction(0):
            changelog.change(b"sum", b"5")
        with pytest.raises(MisuseError, match=r"apply raised ValueError.*transaction is void"):
            _go_on_behind_a_change(changelog)
    with bench.make(OffsetChangelog, **operations) as changelog:
        assert (changelog.state, changelog.offset) == ([5], 1)


def _go_on_behind_a_change(changelog: Writer) -> None:
    with changelog.transaction(1), suppress(ValueError):
        changelog.change(b"sum", b"five")


def test_headers_of_an_output_that_waits_are_those_it_was_given(bench: Bench) -> None:
    bench.feed(b"a")
    headers = [("unit", b"EUR")]
    with bench.make(PairedOffsets) as pair:
        pair.put(b"1", headers=headers)
        headers.clear()
        pair.commit(1)
    [found] = committed_records(bench.config, bench.output, 0)
    assert dict(headers_in(found))["unit"] == b"EUR"


def test_an_output_that_nobody_would_ever_see_is_refused(bench: Bench) -> None:
    bench.feed(b"a")
    no_value: Any = 5
    with bench.make(PairedOffsets) as pair:
        pair.put(no_value)
        with pytest.raises(MisuseError, match="no record can be made"):
            pair.commit(1)
        with pytest.raises(MisuseError, match="a transaction of it has failed"):
            pair.put(b"out")
    with pytest.raises(MisuseError, match="it is closed"):
        pair.put(b"out")


def test_a_name_of_a_header_that_is_not_utf_8_is_refused(bench: Bench) -> None:
    """confluent-kafka 2.16 crashes the interpreter by it."""
    bench.feed(b"a")
    with bench.make(PairedOffsets) as pair:
        pair.put(b"out", headers=[("\udcff", b"")])
        with pytest.raises(MisuseError, match="no record can be made"):
            pair.commit(1)


def test_a_record_that_is_too_large_voids_its_transaction(bench: Bench, topic: MakeTopic) -> None:
    bench.output = TopicPartition(topic(config={"max.message.bytes": "1000"}), 0)
    bench.feed(b"a")
    with bench.make(PairedOffsets) as pair:
        pair.put(b"small")
        pair.put(b"x" * 2_000)
        with pytest.raises(RecordTooLargeError, match=bench.output.topic):
            pair.commit(1)
    assert bench.values() == []
    with bench.make(PairedOffsets) as pair:
        assert (pair.offset, pair.outputs, pair.drop) == (0, 0, 0)


def test_a_state_of_4_kb_is_in_the_commit_and_the_brokers_refuse_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.feed(b"a", b"b")
    with bench.make(Checkpoint) as checkpoint:
        checkpoint.commit(1, "x" * STATE_MAX_BYTES)
    monkeypatch.setattr("coop_consumer.patterns.checkpoint.STATE_MAX_BYTES", 10_000)
    with bench.make(Checkpoint) as checkpoint:
        assert (checkpoint.offset, checkpoint.state) == (1, "x" * STATE_MAX_BYTES)
        with pytest.raises(MisuseError, match=r"offset\.metadata\.max\.bytes"):
            checkpoint.commit(2, "x" * (STATE_MAX_BYTES + 1))
    with bench.make(Checkpoint) as checkpoint:
        assert checkpoint.offset == 1


def test_a_last_record_far_below_the_end_is_found(bench: Bench) -> None:
    """What killed attempts have left there is no record, and takes offsets."""
    with bench.make(ExclusiveProducer) as writer:
        bench.go_on(writer)
    for _ in range(3):
        with bench.make(ExclusiveProducer) as writer, pytest.raises(ZeroDivisionError):
            _fail_after(writer, 150)
    with bench.make(ExclusiveProducer) as writer:
        assert writer.position == 1
        bench.go_on(writer)
    assert bench.values() == [b"out", b"out"]


def _fail_after(writer: ExclusiveProducer, count: int) -> None:
    with writer.transaction():
        for _ in range(count):
            writer.put(writer.position, b"void")
        writer._publisher.send()  # brokers have them
        1 / 0  # noqa: B018


@pytest.mark.parametrize("kind", [Checkpoint, OffsetChangelog])
def test_small_outputs_go_in_batches_that_a_small_topic_takes(
    bench: Bench, kind: type[Writer], topic: MakeTopic
) -> None:
    small = topic(config={"max.message.bytes": "2000"})
    values = [b"x" * 500 + b"%d" % number for number in range(20)]
    bench.feed(b"a")
    with bench.make(kind) as writer:
        arguments = (1, "state") if kind is Checkpoint else (0,)
        with writer.transaction(*arguments):
            for value in values:
                writer.write(small, value)
    assert bench.values(TopicPartition(small, 0)) == values


@pytest.mark.parametrize("kind", [Checkpoint, OffsetChangelog])
def test_an_output_that_cannot_be_is_refused(bench: Bench, kind: type[Writer]) -> None:
    bench.feed(b"a")
    for topic, error in (
        (f"{bench.name}-missing", TopicMissingError),
        ("__individual_commit_offsets", ConfigError),
    ):
        with bench.make(kind) as writer:
            arguments = (1, "state") if kind is Checkpoint else (0,)
            with pytest.raises(error), writer.transaction(*arguments):
                writer.write(topic, b"out")
    with bench.make(kind) as writer:
        assert writer.offset == 0


# -- arguments that cannot be ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_names_topics_and_settings_are_checked_before_anything_is_fenced(
    bench: Bench, kind: type[Writer], topic: MakeTopic
) -> None:
    with bench.make(kind) as writer:
        own = bench.name
        for name, error, said in (
            ("", MisuseError, r"name=\."),
            ("a b", MisuseError, "name=a b"),
            (None, MisuseError, "name=None"),
        ):
            bench.name = name  # type: ignore[assignment]
            with pytest.raises(error, match=said):
                bench.make(kind)
        bench.name = own
        with pytest.raises(ConfigError, match=r"group\.id is the writer's name"):
            bench.make(kind, config={"group.id": "g"})
        with pytest.raises(ConfigError, match="ackz is unknown"):
            bench.make(kind, config={"ackz": "all"})
        source, output = bench.source, bench.output
        if kind is not ExclusiveProducer:
            bench.source = TopicPartition(source.topic, 7)
            with pytest.raises(MisuseError, match=r"no partition 7\. .*Name one from 0 to 0"):
                bench.make(kind)
            bench.source = TopicPartition(f"{source.topic}-missing", 0)
            with pytest.raises(TopicMissingError):
                bench.make(kind)
            bench.source = source
        if kind is not Checkpoint:
            bench.output = TopicPartition(output.topic, -1)
            with pytest.raises(MisuseError, match="no partition -1"):
                bench.make(kind)
            bench.output = TopicPartition("__individual_commit_offsets", 0)
            with pytest.raises((ConfigError, TopicMissingError)):
                bench.make(kind)
            bench.output = output
        bench.feed(b"a")
        bench.go_on(writer)  # it was not fenced by any of these


@pytest.mark.parametrize("kind", [ExclusiveProducer, PairedOffsets, MergeLog])
def test_a_compacted_output_is_refused(bench: Bench, kind: type[Writer], topic: MakeTopic) -> None:
    bench.output = TopicPartition(topic(config={"cleanup.policy": "compact"}), 0)
    with pytest.raises(MisuseError, match=r"is compacted: its last record may go"):
        bench.make(kind)


def test_a_changelog_that_would_lose_changes_is_refused(bench: Bench, topic: MakeTopic) -> None:
    def add(state: list[int], _: bytes, value: bytes | None) -> None:
        state.append(int(value or 0))

    operations = {"initial": list[int], "apply": add}
    bench.output = TopicPartition(topic(config={"retention.ms": "1000"}), 0)
    with pytest.raises(MisuseError, match=r"retention.ms=1000.*Set cleanup.policy=compact"):
        bench.make(OffsetChangelog)
    with pytest.raises(MisuseError, match=r"retention.ms=1000.*Set retention.ms=-1"):
        bench.make(OffsetChangelog, **operations)
    bench.output = TopicPartition(topic(config={"cleanup.policy": "compact"}), 0)
    with pytest.raises(MisuseError, match="keeps only the last operation of a key"):
        bench.make(OffsetChangelog, **operations)
    with bench.make(OffsetChangelog) as changelog:
        assert changelog.state == {}


def test_operations_give_the_same_state_in_a_restore(bench: Bench) -> None:
    def add(state: dict[bytes, int], key: bytes, value: bytes | None) -> None:
        state[key] = state.get(key, 0) + int(value or 0)

    operations = {"initial": dict[bytes, int], "apply": add}
    bench.feed(b"5", b"7", b"-2")
    with bench.make(OffsetChangelog, **operations) as changelog:
        for record in list(committed_records(bench.config, bench.source, changelog.offset)):
            with changelog.transaction(record.offset()):
                changelog.change(b"sum", record.value())
                changelog.change(b"count", b"1")
        assert changelog.state == {b"sum": 10, b"count": 3}
    with bench.make(OffsetChangelog, **operations) as changelog:
        assert changelog.state == {b"sum": 10, b"count": 3}
        assert changelog.offset == 3
        with pytest.raises(MisuseError, match="Go on at offset 3"), changelog.transaction(2):
            pass


def test_a_changelog_that_has_lost_its_beginning_is_refused(
    bench: Bench, admin: AdminClient
) -> None:
    bench.feed(b"a")
    with bench.make(OffsetChangelog) as changelog:
        bench.go_on(changelog)
    remove_below(admin, bench.output.topic, 1)
    with pytest.raises(LogConflictError, match="begins at offset 1, so its first changes are gone"):
        bench.make(OffsetChangelog)


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (ExclusiveProducer, lambda it: it.put(-1, b"v")),
        (PairedOffsets, lambda it: it.commit(-1)),
        (Checkpoint, lambda it: it.commit(-1, "")),
        (Checkpoint, lambda it: it.commit(0, "x" * 5_000)),
        (OffsetChangelog, lambda it: it.transaction(-1).__enter__()),
    ],
)
def test_a_call_that_cannot_be_changes_nothing(
    bench: Bench, kind: type[Writer], call: Callable[[Writer], object]
) -> None:
    bench.feed(b"a")
    with bench.make(kind) as writer:
        with pytest.raises(MisuseError):
            call(writer)
        bench.go_on(writer)
    assert "out" in str(bench.values())


@pytest.mark.parametrize("begin", [-1, "3", True, 1.0])
def test_begin_is_a_number(bench: Bench, begin: object) -> None:
    for kind in (ExclusiveProducer, PairedOffsets):
        with pytest.raises(MisuseError, match=f"begin={begin}"):
            bench.make(kind, begin=begin)
