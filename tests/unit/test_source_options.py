"""Options of the data source: what they mean, and what is said of those that make no sense."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from coop_consumer.errors import ConfigError
from streams_adapter.sinks.driver import SinkOptions
from streams_adapter.source.options import SourceOptions

NEEDED = {"kafka.bootstrap.servers": "b:9092", "subscribe": "orders"}


def test_what_is_not_said_is_as_with_sparks_source() -> None:
    options = SourceOptions.parse(NEEDED)
    assert options.topics == ("orders",)
    assert options.config.bootstrap_servers == "b:9092"
    assert (options.group, options.starting, options.ending) == (None, None, "latest")
    assert (options.offsets_max, options.offsets_min, options.key_ranges) == (None, None, None)
    assert options.fail_on_data_loss
    assert not options.with_headers


def test_names_are_known_in_any_case() -> None:
    said = {"SUBSCRIBE": "a, b,a", "KAFKA.BOOTSTRAP.SERVERS": "b:9092", "keyranges": "4"}
    options = SourceOptions.parse(said)
    assert (options.topics, options.key_ranges) == (("a", "b"), 4)


def test_ends_of_the_log_are_known_in_any_case_as_spark_knows_them() -> None:
    options = SourceOptions.parse(
        {**NEEDED, "startingOffsets": " Earliest", "endingOffsets": "LATEST"}
    )
    assert (options.starting, options.ending) == ("earliest", "latest")


def test_settings_of_spark_users_that_clients_of_a_group_have_are_taken() -> None:
    said = {"kafka.session.timeout.ms": "30000", "kafka.isolation.level": "read_uncommitted"}
    assert SourceOptions.parse({**NEEDED, **said}).config.isolation_level == "read_uncommitted"


@pytest.mark.parametrize("group", [{}, {"group.id": "billing"}], ids=["no group", "a group"])
def test_a_provider_of_tokens_serves_spark_too(group: dict[str, str]) -> None:
    login = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.oauth.token.provider": "auth:token",
    }
    config = SourceOptions.parse({**NEEDED, **login, **group}).config
    assert config.data_plane()["oauth.token.provider"] == "auth:token"


def test_placeholders_are_looked_up_on_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T_GROUP", "billing")
    monkeypatch.setenv("T_BROKER", "b:9092")
    said = {"kafka.bootstrap.servers": "${env:T_BROKER}", "group.id": "${env:T_GROUP}"}
    options = SourceOptions.parse({**NEEDED, **said})
    assert (options.group, options.config.group_id) == ("billing", "billing")
    assert options.config.bootstrap_servers == "b:9092"


def test_offsets_are_read_as_spark_writes_them() -> None:
    text = '{"orders": {"0": 23, "1": -2, "2": -1}}'
    options = SourceOptions.parse({**NEEDED, "startingOffsets": text})
    assert options.starting == {"orders": {0: 23, 1: -2, 2: -1}}


def test_times_are_of_all_partitions_or_of_each() -> None:
    each = '{"orders": {"0": 5, "1": 6}}'
    options = SourceOptions.parse(
        {**NEEDED, "startingTimestamp": "4", "endingOffsetsByTimestamp": each}
    )
    assert (options.since, options.until) == (4, {"orders": {0: 5, 1: 6}})
    assert options.ends_by == "endingOffsetsByTimestamp"


def test_a_group_is_that_of_the_clients_too() -> None:
    options = SourceOptions.parse({**NEEDED, "group.id": "billing"})
    assert (options.group, options.config.group_id) == ("billing", "billing")


def test_keys_are_bytes_that_need_not_be_text() -> None:
    keys = [b"a", "ü".encode(), b"\x00\xff"]
    texts = [key.decode(errors="surrogateescape") for key in keys]
    options = SourceOptions.parse({**NEEDED, "keys": json.dumps(texts), "partitions": "[0, 2]"})
    assert (options.keys, options.partitions) == ({*keys}, {0, 2})


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"startingOffset": "earliest"}, "startingOffset is unknown.*startingOffsets"),
        ({"partitionCounts": "[3]"}, "partitionCounts is given without partitioner"),
        ({"partitionCounts": "3", "partitioner": "murmur2"}, "partitionCounts=3 is no list"),
        ({"partitionCounts": "[0, 3]", "partitioner": "murmur2"}, "has a count below 1"),
        ({"colour": "red"}, "colour is unknown.*begin with kafka"),
        ({"kafka.bootstrap.server": "b"}, "bootstrap.server is unknown.*bootstrap.servers"),
        ({"subscribePattern": "o.*"}, "subscribe is given beside subscribePattern"),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"startingOffsets": "now"}, "startingOffsets=now is neither"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "-3 is no offset"),
        ({"startingOffsets": '{"orders": 5}'}, "neither an end of the log nor JSON"),
        ({"endingOffsets": "earliest"}, "endingOffsets=earliest is no end"),
        ({"startingOffsets": "latest", "startingTimestamp": "5"}, "beside startingOffsets"),
        ({"keyRanges": "0"}, "keyRanges=0 is no whole number from 1 on"),
        ({"keyRanges": "many"}, "keyRanges=many is no whole number"),
        ({"keyRanges": "2000"}, "keyRanges=2000 is above 1024"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "9"}, "=5 is below min"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay=soon is no duration"),
        ({"includeHeaders": "yes"}, "includeHeaders=yes is not known"),
        ({"partitioner": "modulo"}, "partitioner=modulo is not known. .*murmur2"),
        ({"path": "/orders"}, "there is no path"),
        ({"kafka.group.id": "billing"}, "option of Spark's Kafka source.*set group.id"),
        ({"assign": '{"orders": [0]}'}, r"assign is an option of Spark's.*partitions: \[0, 2\]"),
        ({"minPartitions": "12"}, "minPartitions is an option of Spark's.*keyRanges"),
        ({"maxRecordsPerPartition": "9"}, "maxRecordsPerPartition is an option.*keyRanges"),
        ({"groupIdPrefix": "a"}, "groupIdPrefix is an option of Spark's.*group.id"),
        ({"kafkaConsumer.pollTimeoutMs": "9"}, "pollTimeoutMs is an option.*Leave it out"),
        ({"fetchOffset.numRetries": "9"}, "numRetries is an option.*Leave it out"),
        ({"kafka.auto.offset.reset": "earliest"}, "auto.offset.reset.*Say startingOffsets"),
        ({"topic": "orders"}, "topic is an option.*subscribe"),
        ({"startingTimestamp": str(2**63)}, "startingTimestamp=9223372036854775808 is no whole"),
        ({"maxOffsetsPerTrigger": str(2**63)}, "is no whole number from 1 on, of 64 bits"),
        ({"startingOffsets": f'{{"orders": {{"0": {2**63}}}}}'}, "9223372036854775808 is no off"),
        ({"startingOffsetsByTimestamp": "5"}, "ByTimestamp=5 is no JSON of times.*Unix ms"),
        ({"endingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, "-1 is no time"),
        ({"endingOffsetsByTimestamp": '{"orders": {"0": true}}'}, "True is no time"),
        ({"endingTimestamp": "5", "endingOffsets": "latest"}, "endingTimestamp is given beside"),
        (
            {"startingTimestamp": "5", "startingOffsetsByTimestamp": '{"orders": {"0": 5}}'},
            "startingOffsetsByTimestamp is given beside startingTimestamp",
        ),
        ({"startingTimestamp": "6", "endingTimestamp": "5"}, "=6 is after endingTimestamp=5"),
        ({"keys": "a"}, "keys=a is no list in JSON"),
        ({"keys": "[]"}, r"keys=\[\] is no list in JSON"),
        ({"keys": '["a", 1]'}, "is no list in JSON"),
        ({"keys": r'["\ud800"]'}, "keys cannot be bytes"),
        ({"partitions": "[true]"}, "is no list in JSON"),
        ({"partitions": "[" * 100_000}, r"partitions=\[{57}[.]{3} is no list in JSON"),
        ({"startingOffsets": '{"orders":' * 9_000}, r"neither an end.*\(it is nested too deep\)"),
        ({"startingOffsets": '{"orders": {"0": 5, "0": 9}}'}, r"\(it names 0 twice\)"),
        ({"startingOffsets": '{"orders": {"0": 5, "00": 9}}'}, "'00' is no number of a partition"),
        ({"startingOffsets": '{"orders": {"-1": 5}}'}, "'-1' is no number of a partition"),
        (
            {"endingOffsetsByTimestamp": '{"a": {"0": 5}, "a": {"1": 9}}'},
            "no JSON of times.*names a twice",
        ),
        ({"keyRanges": "9" * 5_000}, r"keyRanges=9{57}[.]{3} is no whole number"),
        ({"maxOffsetsPerTrigger": "\u0663"}, "is no whole number from 1 on"),
        ({"includeHeaders": "\x1b[31m"}, r"includeHeaders=\\x1b\[31m is not known"),
        ({"group.id": " "}, "group.id is empty"),
        ({"subscribe": "orders,a b"}, "subscribe names a b, which no topic can be called"),
        ({"subscribe": "orders\0x"}, r"subscribe names orders\\x00x, which no topic can be called"),
        ({"subscribe": "x" * 250}, "which no topic can be called.*1 to 249"),
        ({"kafka.topics": "orders"}, "kafka.topics is a setting of a group's members.*Say subscr"),
        ({"kafka.on.data.loss": "warn"}, "has no effect on what Spark reads.*Say failOnDataLoss"),
        ({"kafka.state.dir": "/disk"}, "has no effect on what Spark reads.*Leave it out"),
    ],
)
def test_what_makes_no_sense_is_named(said: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        SourceOptions.parse({**NEEDED, **said})


def test_what_spark_notes_of_a_table_is_no_option() -> None:
    notes = {"provider": "keyrange", "owner": "ann", "option.subscribe": "orders"}
    assert SourceOptions.parse({**NEEDED, **notes}) == SourceOptions.parse(NEEDED)
    with pytest.raises(ConfigError, match="owner is unknown"):
        SourceOptions.parse({**NEEDED, "owner": "ann"})


@pytest.mark.parametrize("parse", [SourceOptions.parse, SinkOptions.parse])
def test_a_table_whose_options_spark_keeps_is_answered_with_what_works(
    parse: Callable[[dict[str, str]], object],
) -> None:
    with pytest.raises(ConfigError, match=r"keeps those of CREATE TABLE.*TEMPORARY VIEW.*WITH \("):
        parse({})


def test_topics_are_needed_and_a_pattern_must_be_one() -> None:
    brokers = {"kafka.bootstrap.servers": "b:9092"}
    with pytest.raises(ConfigError, match="subscribe is missing"):
        SourceOptions.parse(brokers)
    with pytest.raises(ConfigError, match="is no regular expression"):
        SourceOptions.parse({**brokers, "subscribePattern": "("})
