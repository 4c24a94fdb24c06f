"""The rights that docs/patterns.md lists: with all of them, and without each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.broker import EmbeddedBroker
from coop_consumer.config import Config
from coop_consumer.errors import AuthorizationError, TopicMissingError
from coop_consumer.patterns import (
    Checkpoint,
    Deduplicator,
    ExclusiveProducer,
    MergeLog,
    OffsetChangelog,
    PairedOffsets,
    committed_records,
)
from coop_consumer.patterns.cleaning import Cleaned, clean_partition, cleaning_order
from tests.support.job import Job
from tests.support.rights import Right, grant
from tests.support.single_writers import ALL, FOREVER, Bench, Writer
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

READ_SOURCE: Right = ("TOPIC", "{topic}", "READ")
READ_OUTPUT: Right = ("TOPIC", "{topic}-out", "READ")
WRITE_OUTPUT: Right = ("TOPIC", "{topic}-out", "WRITE")
READ_GROUP: Right = ("GROUP", "{group}", "READ")
WRITE_ID: Right = ("TRANSACTIONAL_ID", "{group}", "WRITE")
KINDS = {"TOPIC": "topic", "GROUP": "group", "TRANSACTIONAL_ID": "transactional.id"}
NEEDED: dict[type[Writer], tuple[Right, ...]] = {
    ExclusiveProducer: (READ_OUTPUT, WRITE_OUTPUT, WRITE_ID),
    PairedOffsets: (READ_SOURCE, READ_OUTPUT, WRITE_OUTPUT, READ_GROUP, WRITE_ID),
    Checkpoint: (READ_SOURCE, WRITE_OUTPUT, READ_GROUP, WRITE_ID),
    OffsetChangelog: (READ_SOURCE, READ_OUTPUT, WRITE_OUTPUT, WRITE_ID),
    MergeLog: (READ_SOURCE, READ_OUTPUT, WRITE_OUTPUT, WRITE_ID),
}


@pytest.mark.parametrize("kind", ALL)
def test_each_right_is_needed_and_named_and_all_are_enough(
    secured: EmbeddedBroker, root: AdminClient, group_id: str, kind: type[Writer]
) -> None:
    source, output = group_id, f"{group_id}-out"
    create_topic(root, source, config=FOREVER)
    create_topic(root, output, config=FOREVER)
    as_root, as_ann = secured.client_config("root"), secured.client_config("ann")
    bench = Bench(as_root, source, output, group_id, **as_ann)
    bench.feed(b"a")
    job, needed = Job(as_root, root, group_id, source), NEEDED[kind]
    for missing in needed:
        grant(root, job, [it for it in needed if it != missing])
        with pytest.raises(AuthorizationError) as error:
            use(bench, kind)
        assert (
            error.value.resource
            == f"{KINDS[missing[0]]} {missing[1].format(topic=source, group=group_id)}"
        )
        assert error.value.operation == missing[2].lower()
        assert bench.values() == []
    grant(root, job, needed)
    use(bench, kind)


def use(bench: Bench, kind: type[Writer]) -> None:
    with bench.make(kind) as writer:
        bench.go_on(writer)


CLEANING: tuple[Right, ...] = (
    READ_SOURCE,
    READ_OUTPUT,
    WRITE_OUTPUT,
    READ_GROUP,
    ("TRANSACTIONAL_ID", "{group}-0", "WRITE"),
)


def test_a_cleaning_needs_each_right_that_its_page_lists_and_no_more(
    secured: EmbeddedBroker, root: AdminClient, group_id: str
) -> None:
    source, target = group_id, f"{group_id}-out"
    create_topic(root, source)
    create_topic(root, target)
    as_root, as_ann = secured.client_config("root"), secured.client_config("ann")
    bench, job = Bench(as_root, source, target, group_id), Job(as_root, root, group_id, source)
    bench.feed(b"a")

    def cleaned() -> Cleaned:
        config = Config.from_dict({**as_ann, "group.id": group_id})
        order = cleaning_order(config, source, target, unidentified="copy")
        return clean_partition(order, 0)

    for missing in CLEANING:
        grant(root, job, [it for it in CLEANING if it != missing])
        with pytest.raises(AuthorizationError) as error:
            cleaned()
        named = f"{KINDS[missing[0]]} {missing[1].format(topic=source, group=group_id)}"
        assert (error.value.resource, error.value.operation) == (named, missing[2].lower())
        assert bench.values() == []
    grant(root, job, CLEANING)
    assert cleaned() == Cleaned(0, 1, 1, 0)


@pytest.mark.parametrize("right", [True, False])
def test_a_reader_needs_the_right_to_read(
    secured: EmbeddedBroker, root: AdminClient, group_id: str, *, right: bool
) -> None:
    create_topic(root, group_id)
    as_root, as_ann = secured.client_config("root"), secured.client_config("ann")
    bench, job = (
        Bench(as_root, group_id, group_id, group_id),
        Job(as_root, root, group_id, group_id),
    )
    bench.feed(b"a")
    grant(root, job, [READ_SOURCE] if right else [])
    reads: list[Callable[[], object]] = [
        lambda: list(committed_records(as_ann, bench.source, 0)),
        lambda: Deduplicator().catch_up(as_ann, bench.source, 1),
    ]
    for read in reads:
        if right:
            read()
        else:
            with pytest.raises((AuthorizationError, TopicMissingError), match=group_id):
                read()
