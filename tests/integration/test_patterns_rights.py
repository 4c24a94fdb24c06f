"""The rights that docs/patterns.md lists: with all of them, and without each."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.broker import EmbeddedBroker
from coop_consumer.errors import AuthorizationError
from coop_consumer.patterns import (
    Checkpoint,
    ExclusiveProducer,
    MergeLog,
    OffsetChangelog,
    PairedOffsets,
)
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
