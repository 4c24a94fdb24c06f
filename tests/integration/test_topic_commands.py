"""`topic`, `send` and `read` against a real broker, as newcomers and operators call them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient

from coop_consumer.admin.sending import Sending, TypedRecord
from coop_consumer.broker import EmbeddedBroker
from coop_consumer.cli.app import app
from coop_consumer.config import Config
from coop_consumer.errors import BrokerUnreachableError, ExitCode
from tests.support import stock
from tests.support.brokers import MakeTopic
from tests.support.called import done
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.readable import is_readable
from tests.support.rights import grant
from tests.support.topics import ADMIN_TIMEOUT_S, create_topic, remove_below

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("logging_as_it_was")]

Call = Callable[..., Result]


@pytest.fixture
def call(bootstrap: str) -> Call:
    """Call a command, with bytes for its standard input."""

    def called(*words: str, stdin: bytes = b"") -> Result:
        environment = {"COOP_BOOTSTRAP": bootstrap, "COLUMNS": "400"}
        return CliRunner().invoke(app, words, input=stdin, env=environment)

    return called


@pytest.fixture
def made(admin: AdminClient, group_id: str) -> Iterator[str]:
    """A name for a topic that the test makes by a command; gone after the test."""
    yield group_id
    if group_id in admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics:
        admin.delete_topics([group_id])[group_id].result(ADMIN_TIMEOUT_S)


def read_json(call: Call, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done(call("read", *words, "--json")).splitlines()]


# -- topic -----------------------------------------------------------------------------------------


def test_a_topic_is_made_and_can_be_used_at_once(call: Call, admin: AdminClient, made: str) -> None:
    words = ["topic", "create", made, "--partitions", "3", "--topic-config", "retention.ms=7000000"]
    assert done(call(*words)) == f"topic {made}: created, 3 partitions\n"
    told = json.loads(done(call("topic", "describe", made, "--json")))
    assert (told["topic"], told["settings"]) == (made, {"retention.ms": "7000000"})
    assert urlsafe_b64decode(told["id"] + "==") == stock.topic_id(admin, made)
    assert [it["partition"] for it in told["partitions"]] == [0, 1, 2]
    assert {(it["begin"], it["end"]) for it in told["partitions"]} == {(0, 0)}
    [broker] = {it["leader"] for it in told["partitions"]}
    assert all(it["replicas"] == it["in_sync"] == [broker] for it in told["partitions"])
    text = done(call("topic", "describe", made))
    assert f"topic {made}  id {told['id']}" in text
    assert "retention.ms=7000000" in text


def test_a_topic_that_is_there_as_it_is_to_be_is_left_alone(call: Call, made: str) -> None:
    words = ["topic", "create", made, "--partitions", "2", "--topic-config", "retention.ms=7000000"]
    done(call(*words))
    assert done(call(*words)) == f"topic {made}: exists, 2 partitions\n"
    assert done(call("topic", "create", made)) == f"topic {made}: exists, 2 partitions\n"


@pytest.mark.parametrize(
    ("words", "differs"),
    [
        (["--partitions", "4"], "exists, with 1 partition, not 4"),
        (["--replication", "2"], "exists, with replication 1, not 2"),
        (["--topic-config", "retention.ms=5"], "exists, with retention.ms=604800000, not 5"),
    ],
)
def test_a_topic_that_differs_is_not_changed(
    call: Call, topic: MakeTopic, words: list[str], differs: str
) -> None:
    name = topic()
    told = call("topic", "create", name, *words)
    assert told.exit_code == ExitCode.CONFLICT
    assert differs in told.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--replication", "5"], "--replication"),
        (["--partitions", "100000000"], "--partitions"),
        (["--topic-config", "retention.ms=soon"], "--topic-config"),
        (["--topic-config", "retention.mss=5"], "--topic-config"),
        (["--topic-config", "retention.ms"], "needs name=value"),
    ],
)
def test_what_brokers_refuse_is_told_with_the_option(
    call: Call, made: str, words: list[str], says: str
) -> None:
    told = call("topic", "create", made, *words)
    assert told.exit_code == ExitCode.USAGE, told.stderr
    assert says in told.stderr


def test_topics_are_listed_without_those_of_kafka_and_of_progress(
    call: Call, topic: MakeTopic
) -> None:
    name = topic(2)
    listed = json.loads(done(call("topic", "list", "--json")))["topics"]
    assert {"topic": name, "partitions": 2, "replication": 1} in listed
    assert not [it for it in listed if it["topic"].startswith("__")]
    everything = json.loads(done(call("topic", "list", "--all", "--json")))["topics"]
    assert len(everything) >= len(listed)
    assert f"\n{name} " in done(call("topic", "list"))


# -- send ------------------------------------------------------------------------------------------


def test_a_record_is_in_kafka_once_send_has_ended(
    call: Call, topic: MakeTopic, bootstrap: str
) -> None:
    name = topic()
    words = ["--key", "customer-7", "--value", "order 1", "--header", "source=a=b"]
    assert done(call("send", name, *words)) == f"1 record sent: {name}-0 offset 0\n"
    [record] = stock.records_of({"bootstrap.servers": bootstrap}, name)
    assert (record.key(), record.value()) == (b"customer-7", b"order 1")
    assert record.headers() == [("source", b"a=b")]


def test_each_line_is_a_record_in_the_order_of_its_key(
    call: Call, topic: MakeTopic, tmp_path: Path
) -> None:
    name = topic(3)
    lines = [f"key-{number % 10}:{number}:x" for number in range(2_000)]
    (tmp_path / "lines").write_text("\n".join(lines))
    words = ["send", name, "--lines", str(tmp_path / "lines"), "--separator", ":", "--json"]
    told = json.loads(done(call(*words)))
    assert told["records"] == sum(it["records"] for it in told["partitions"]) == 2_000
    assert all(it["last"] == it["records"] - 1 and it["first"] == 0 for it in told["partitions"])
    records = read_json(call, name)
    for key in {it["key"] for it in records}:
        values = [it["value"] for it in records if it["key"] == key]
        assert values == [f"{number}:x" for number in range(int(key[4:]), 2_000, 10)]


def test_the_key_chooses_the_partition_as_with_javas_producers(
    call: Call, topic: MakeTopic
) -> None:
    """murmur2 of these keys, modulo 3."""
    name = topic(3)
    places = {}
    for key in ("a", "b", "c", "customer-7"):
        [told] = json.loads(done(call("send", name, "--key", key, "--value", "", "--json")))[
            "partitions"
        ]
        places[key] = told["partition"]
    assert places == {"a": murmur2(b"a") % 3, "b": murmur2(b"b") % 3, "c": murmur2(b"c") % 3,
                      "customer-7": murmur2(b"customer-7") % 3}  # fmt: skip


def murmur2(key: bytes) -> int:
    """Kafka's own, from `Utils.java`."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        h = h * m & mask ^ (k ^ k >> 24) * m & mask
    for at, byte in enumerate(key[whole:]):
        h ^= byte << 8 * at
    if key[whole:]:
        h = h * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def test_lines_of_windows_empty_lines_and_bytes_are_taken_as_they_are(
    call: Call, topic: MakeTopic, bootstrap: str
) -> None:
    name = topic()
    done(call("send", name, "--lines", "-", "--key", "k", stdin=b"one\r\n\n\xff\x00\nlast"))
    records = stock.records_of({"bootstrap.servers": bootstrap}, name)
    assert [record.value() for record in records] == [b"one", b"", b"\xff\x00", b"last"]
    assert {record.key() for record in records} == {b"k"}


def test_a_tab_is_written_with_a_backslash(call: Call, topic: MakeTopic) -> None:
    name = topic()
    done(call("send", name, "--lines", "-", "--separator", "\\t", stdin=b"a\tb:c\n"))
    [record] = read_json(call, name)
    assert (record["key"], record["value"]) == ("a", "b:c")


def test_tombstones_are_records_without_a_value(
    call: Call, topic: MakeTopic, bootstrap: str
) -> None:
    name = topic(config={"cleanup.policy": "compact"})
    done(call("send", name, "--key", "a", "--tombstone"))
    done(call("send", name, "--lines", "-", "--tombstone", stdin=b"b\nc\n"))
    records = stock.records_of({"bootstrap.servers": bootstrap}, name)
    assert [(record.key(), record.value()) for record in records] == [
        (b"a", None), (b"b", None), (b"c", None)
    ]  # fmt: skip
    assert "a  (tombstone)" in done(call("read", name))


def test_no_line_is_no_record(call: Call, topic: MakeTopic) -> None:
    name = topic()
    assert done(call("send", name, "--lines", "-")) == "0 records sent\n"


def test_a_line_without_separator_ends_it_and_what_was_sent_is_told(
    call: Call, topic: MakeTopic
) -> None:
    name = topic()
    told = call("send", name, "--lines", "-", "--separator", ":", stdin=b"a:1\nb:2\nc3\nd:4\n")
    assert told.exit_code == ExitCode.USAGE
    assert "--separator=: is not in line 3" in told.stderr
    assert "Nothing was started" not in told.stderr
    assert f"2 records in {name}\n" in told.stderr
    assert [it["value"] for it in read_json(call, name)] == ["1", "2"]


def test_a_record_that_is_too_large_is_refused_with_the_settings_to_raise(
    call: Call, topic: MakeTopic
) -> None:
    name = topic(config={"max.message.bytes": "1000"})
    told = call("send", name, "--lines", "-", stdin=b"small\n" + b"x" * 5_000 + b"\n")
    assert told.exit_code == ExitCode.CONFLICT
    assert "max.message.bytes" in told.stderr


def test_records_of_a_topic_with_small_batches_are_not_refused_together(
    call: Call, topic: MakeTopic
) -> None:
    name = topic(config={"max.message.bytes": "10000"})
    done(call("send", name, "--lines", "-", stdin=b"".join(b"%0900d\n" % n for n in range(500))))
    assert len(read_json(call, name)) == 500


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing to send: give --value TEXT, --lines FILE"),
        (["--value", "a", "--lines", "-"], "without --lines"),
        (["--value", "a", "--tombstone"], "and --tombstone"),
        (["--tombstone"], "give --key"),
        (["--value", "a", "--separator", ":"], "--separator is for --lines"),
        (["--lines", "-", "--separator", ""], "--separator is empty"),
        (["--lines", "-", "--separator", ":", "--key", "k"], "both give the key"),
        (["--lines", "-", "--tombstone", "--key", "k"], "each line is a key"),
        (["--lines", "no-such-file"], "no-such-file"),
        (["--value", "a", "--header", "source"], "needs name=value"),
        (["--value", "a", "--header", "\udcff=a"], "needs a name in UTF-8"),
        (["--value", "a", "--partition", "-1"], "--partition"),
    ],
)
def test_what_is_unclear_is_refused_before_anything_is_sent(
    call: Call, words: list[str], says: str
) -> None:
    told = call("send", "no-such-topic", *words)
    assert told.exit_code == ExitCode.USAGE
    assert says in " ".join(told.stderr.split())


def test_a_partition_may_be_named_and_must_be_there(call: Call, topic: MakeTopic) -> None:
    name = topic(2)
    sent = done(call("send", name, "--value", "a", "--partition", "1"))
    assert sent == f"1 record sent: {name}-1 offset 0\n"
    told = call("send", name, "--value", "a", "--partition", "2")
    assert told.exit_code == ExitCode.MISSING
    assert f"{name}-2: does not exist, the topic has 0 to 1" in told.stderr


def test_ctrl_c_ends_a_pipe_and_what_was_sent_is_told(
    call: Call, topic: MakeTopic, bootstrap: str
) -> None:
    name = topic()
    with subprocess.Popen(
        [sys.executable, "-m", "coop_consumer.cli", "send", name, "--lines", "-"],
        env={**os.environ, "COOP_BOOTSTRAP": bootstrap, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as sending:
        assert sending.stdin is not None
        sending.stdin.write(b"one\ntwo\n")
        sending.stdin.flush()
        stock.eventually(lambda: len(read_json(call, name)) == 2)
        sending.send_signal(signal.SIGINT)
        printed, said = sending.communicate(timeout=WAIT_S)
    assert (sending.returncode, printed) == (ExitCode.INTERRUPTED, b"")
    assert said.decode() == f"2 records in {name}\ninterrupted\n"


def test_what_a_killed_broker_has_not_acknowledged_is_not_counted(
    fresh_broker: Callable[..., EmbeddedBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coop_consumer.admin.sending._DELIVERY_MS", 2_000)
    broker = fresh_broker()
    create_topic(AdminClient(broker.client_config()), "orders")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
    sending = Sending(Config.from_dict(settings), "orders")

    def send() -> None:
        with sending:
            sending.send([TypedRecord(None, b"one")])
            stock.eventually(lambda: sending.count == 1)
            broker.kill()
            sending.send([TypedRecord(None, b"two")])

    with pytest.raises(BrokerUnreachableError):
        send()
    assert sending.count == 1


# -- read ------------------------------------------------------------------------------------------


@pytest.fixture
def orders(topic: MakeTopic, bootstrap: str) -> str:
    """Two partitions, with ten records each."""
    name = topic(2)
    for partition in range(2):
        stock.produce({"bootstrap.servers": bootstrap}, name, list("abcdefghij"), partition)
    return name


def places(records: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((it["partition"], it["offset"]) for it in records)


def test_read_shows_what_is_there_and_ends(call: Call, orders: str) -> None:
    assert places(read_json(call, orders)) == [(p, o) for p in range(2) for o in range(10)]
    lines = done(call("read", orders, "-p", "1")).splitlines()
    assert lines[0] == f"{orders}-1 offset 0  a  value"
    assert len(lines) == 10


def test_read_begins_where_it_is_told(call: Call, orders: str) -> None:
    assert places(read_json(call, orders, "--from", "8")) == [(0, 8), (0, 9), (1, 8), (1, 9)]
    assert read_json(call, orders, "--from", "10") == []
    assert read_json(call, orders, "--from", "999") == []
    assert len(read_json(call, orders, "--from", "2020-01-01T00:00:00Z")) == 20
    assert read_json(call, orders, "--from", "2100-01-01T00:00:00Z") == []


def test_an_offset_that_is_gone_means_the_first_one_that_is_there(
    call: Call, admin: AdminClient, orders: str
) -> None:
    remove_below(admin, orders, 4)
    assert places(read_json(call, orders, "-p", "0", "--from", "1"))[0] == (0, 4)


def test_count_ends_it_sooner(call: Call, orders: str) -> None:
    assert len(read_json(call, orders, "--count", "3")) == 3
    assert len(read_json(call, orders, "--count", "99")) == 20
    assert places(read_json(call, orders, "--count", "2", "--follow", "-p", "0")) == [
        (0, 0),
        (0, 1),
    ]


def test_what_is_not_text_is_shown_safely_and_told_exactly(call: Call, topic: MakeTopic) -> None:
    name = topic()
    value = b"\x1b[31m \xff line\nfeed"
    done(call("send", name, "--value", os.fsdecode(value), "--header", "h=\x07"))
    shown = done(call("read", name)).removesuffix("\n")
    assert shown == rf"{name}-0 offset 0  (no key)  \x1b[31m \xff line\nfeed  {{h=\x07}}"
    [told] = read_json(call, name)
    assert told["key"] is None
    assert told["value_base64"] == "G1szMW0g/yBsaW5lCmZlZWQ="
    assert told["headers"] == [{"name": "h", "value": "\x07"}]
    assert "key_base64" not in told


def test_an_empty_topic_is_told_and_no_failure(call: Call, topic: MakeTopic) -> None:
    name = topic()
    told = call("read", name)
    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr == f"topic {name}: no records from earliest on\n"


def test_aborted_records_are_shown_only_if_that_is_asked_for(
    call: Call, topic: MakeTopic, bootstrap: str
) -> None:
    name = topic()
    stock.abort({"bootstrap.servers": bootstrap}, name, 3)
    done(call("send", name, "--value", "committed"))
    assert [it["value"] for it in read_json(call, name)] == ["committed"]
    everything = read_json(call, name, "--config", "isolation.level=read_uncommitted")
    assert len(everything) == 4


def test_a_partition_that_ends_in_aborted_records_has_an_end(
    call: Call, topic: MakeTopic, bootstrap: str
) -> None:
    name = topic()
    stock.abort({"bootstrap.servers": bootstrap}, name, 3)
    assert call("read", name).exit_code == 0


@pytest.mark.parametrize("words", [["--from", "latest"], ["--follow"]])
def test_a_read_that_follows_ends_with_ctrl_c_and_code_0(
    bootstrap: str, call: Call, topic: MakeTopic, words: list[str]
) -> None:
    name = topic()
    with subprocess.Popen(
        [sys.executable, "-m", "coop_consumer.cli", "read", name, *words],
        env={**os.environ, "COOP_BOOTSTRAP": bootstrap, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as reading:
        assert reading.stdout is not None
        lines = iter(reading.stdout.readline, "")
        # It begins at the end that it finds: one of these records comes behind it.
        stock.eventually(lambda: _has_line(call, name, reading), bool)
        assert "(no key)  more" in next(lines)
        reading.send_signal(signal.SIGINT)
        _, said = reading.communicate(timeout=WAIT_S)
        assert (reading.returncode, said) == (0, "")


def _has_line(call: Call, name: str, reading: subprocess.Popen[str]) -> bool:
    """Send one more record; whether the reader has printed anything yet."""
    assert reading.stdout is not None
    done(call("send", name, "--value", "more"))
    return is_readable(reading.stdout, 0.2)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--from", "yesterday"], ExitCode.USAGE, "--from=yesterday is neither an end"),
        (["--from", "committed"], ExitCode.USAGE, "Give earliest, latest, an offset"),
        (["--count", "0"], ExitCode.USAGE, "--count"),
        (["-p", "2"], ExitCode.MISSING, "does not exist, the topic has 0 to 1"),
    ],
)
def test_a_read_that_cannot_be_meant_is_refused(
    call: Call, orders: str, words: list[str], code: ExitCode, says: str
) -> None:
    told = call("read", orders, *words)
    assert told.exit_code == code
    assert says in told.stderr


# -- rights ----------------------------------------------------------------------------------------


RIGHTS: dict[str, tuple[str, list[str]]] = {
    "READ": ("read", ["read", "{topic}"]),
    "WRITE": ("write", ["send", "{topic}", "--value", "a"]),
    "CREATE": ("create", ["topic", "create", "{topic}-more"]),
}
"""The right that a command needs, with the word for it in the message."""


@pytest.mark.parametrize("right", RIGHTS)
def test_a_right_that_is_missing_is_named(
    secured: EmbeddedBroker, root: AdminClient, group_id: str, tmp_path: Path, right: str
) -> None:
    create_topic(root, group_id)
    job = Job(secured.client_config("root"), root, group_id, group_id)
    file = tmp_path / "ann.properties"
    login = {**secured.client_config("ann")}
    file.write_text("".join(f"{name}={value}\n" for name, value in login.items()))
    operation, words = RIGHTS[right]
    name = words[-1 if right == "CREATE" else 1].format(topic=group_id)
    line = [word.format(topic=group_id) for word in words] + ["--config-file", str(file)]
    describe = ("TOPIC", name, "DESCRIBE")
    grant(root, job, [describe])
    told = CliRunner().invoke(app, line)
    assert told.exit_code == ExitCode.UNAUTHORIZED, told.stderr
    assert f"topic {name}: user ann may not {operation}" in told.stderr
    grant(root, job, [describe, ("TOPIC", name, right)])
    done(CliRunner().invoke(app, line))
