"""The rights of a group, and how the tools that grant them want them."""

from __future__ import annotations

import pytest

from coop_consumer import Config
from coop_consumer.errors import ConfigError
from coop_consumer.status.finding import TopicShape
from coop_consumer.status.rights import (
    NeededRight,
    check_strimzi_user,
    kafka_acls,
    needed_rights,
    strimzi_topic,
    strimzi_user,
)
from tests.support.rights import NEEDED, NEEDED_ONCE, READ_PROGRESS, WRITE_DEAD, Right

STATE = "billing-orders-state"


def rights(*, keyed_state: bool = False, **settings: str) -> tuple[NeededRight, ...]:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    config = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing", **dotted})
    return needed_rights(config, ["orders"], keyed_state=keyed_state)


def one_by_one(found: tuple[NeededRight, ...]) -> set[Right]:
    """As tests grant them."""
    return {
        (it.kind.value, f"{it.name}*" if it.is_prefix else it.name, operation.upper())
        for it in found
        for operation in it.operations
    }


def named(granted: tuple[Right, ...]) -> set[Right]:
    names = {"topic": "orders", "group": "billing"}
    return {(kind, name.format(**names), operation) for kind, name, operation in granted}


# The tests of security take these away one by one, and each is missed.


def test_at_least_once_needs_what_the_tests_of_security_grant() -> None:
    assert one_by_one(rights()) == named(NEEDED)


def test_exactly_once_needs_that_and_reads_policies_of_topics() -> None:
    needed = named((*NEEDED_ONCE, READ_PROGRESS))
    assert one_by_one(rights(processing_guarantee="exactly_once")) == needed


def test_each_further_thing_that_a_group_does_needs_its_own_right() -> None:
    plain = one_by_one(rights())
    assert one_by_one(rights(on_failure="dead_letter")) - plain == named((WRITE_DEAD,))
    assert one_by_one(rights(output_topics="totals,sums")) - plain == {
        ("TOPIC", "sums", "WRITE"),
        ("TOPIC", "totals", "WRITE"),
    }
    assert one_by_one(rights(keyed_state=True)) - plain == {
        ("TOPIC", STATE, "READ"),
        ("TOPIC", STATE, "WRITE"),
    }


def test_a_topic_that_is_read_and_sent_to_is_named_once() -> None:
    found = [it for it in rights(output_topics="orders") if it.name == "orders"]
    assert [it.operations for it in found] == [("Read", "Write")]
    assert str(found[0]) == "Read and Write on topic orders"


def test_kafkas_own_tool_gets_a_command_for_each_resource() -> None:
    found = rights(processing_guarantee="exactly_once")
    lines = list(kafka_acls(found, "User:CN=ann, O=we", "b:9092"))
    begin = "kafka-acls.sh --bootstrap-server b:9092 --add --allow-principal 'User:CN=ann, O=we' "
    assert lines[0] == f"{begin}--operation Read --topic orders"
    ids = "--transactional-id coop-billing- --resource-pattern-type prefixed"
    assert f"{begin}--operation Write {ids}" in lines
    assert len(lines) == len(found)


def test_strimzi_gets_a_user_with_all_of_them() -> None:
    found = rights(processing_guarantee="exactly_once")
    lines = list(strimzi_user(found, "User:ann"))
    assert lines[:11] == [
        "---",
        "apiVersion: kafka.strimzi.io/v1",
        "kind: KafkaUser",
        "metadata:",
        "  name: ann",
        "  labels:",
        "    strimzi.io/cluster: CLUSTER",
        "spec:",
        "  authorization:",
        "    type: simple",
        "    acls:",
    ]
    assert "\n".join(lines).count("- resource:") == len(found)
    at = lines.index('          name: "coop-billing-"')
    assert lines[at - 1 : at + 3] == [
        "          type: transactionalId",
        '          name: "coop-billing-"',
        "          patternType: prefix",
        "        operations: [Write]",
    ]


def test_strimzi_gets_the_user_of_a_certificate_as_one() -> None:
    lines = list(strimzi_user(rights(), "User:CN=ann"))
    assert "  name: ann" in lines
    at = lines.index("spec:")
    assert lines[at + 1 : at + 3] == ["  authentication:", "    type: tls-external"]


@pytest.mark.parametrize("principal", ["User:Ann_B", "User:CN=ann, O=we", "User:ann.", "Group:x"])
def test_strimzi_has_no_user_of_a_name_that_kubernetes_does_not_take(principal: str) -> None:
    check_strimzi_user("User:ann.eu-1")
    with pytest.raises(ConfigError, match=f"--principal={principal}: Strimzi"):
        check_strimzi_user(principal)


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("orders.eu-1", "orders.eu-1"),
        ("__individual_commit_offsets", "individual-commit-offsets-0474c98d"),
        ("orders_a", "orders-a-1435548d"),
        ("orders-a", "orders-a"),
        ("A" + 122 * "ab" + "_eu", "a" + 121 * "ab" + "a-8ea66a44"),
        ("a..b", "a-b-f62b4241"),
        ("___", "bda25155"),
    ],
)
def test_strimzi_gets_a_topic_under_a_name_that_kubernetes_takes(topic: str, name: str) -> None:
    shape = TopicShape(topic, 50, 3, {"cleanup.policy": "compact"})
    lines = list(strimzi_topic(shape))
    assert f"  name: {name}" in lines
    assert lines[-5:] == [
        f'  topicName: "{topic}"',
        "  partitions: 50",
        "  replicas: 3",
        "  config:",
        '    cleanup.policy: "compact"',
    ]
