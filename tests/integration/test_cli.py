"""The command line against a real broker: what people see of a group, and what they do to it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from assignors import WHOLE, key_hash
from coop_consumer import Record, status_of
from coop_consumer.admin import amend
from coop_consumer.broker import EmbeddedBroker
from coop_consumer.cli.app import app
from coop_consumer.errors import ExitCode
from coop_consumer.ops.health import ready
from tests.support import stock
from tests.support.brokers import MakeTopic
from tests.support.called import command, done
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.pools import Gate, RefusedError, refuse
from tests.support.stock import eventually, keys_of
from tests.support.topics import create_topic

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("logging_as_it_was")]

MakeJob = Callable[..., Job]
PARKS_AT_ONCE = {"on.failure": "park", "max.attempts": 1}
HALVES = WHOLE.parts(2)


def status(job: Job) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(done(command(job, "status", job.group, "--json")))
    return told


def partition(job: Job, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = status(job)["partitions"][number]
    return found


def parked(job: Job) -> list[dict[str, Any]]:
    return [record for record in partition(job)["failed"] if record["parked"]]


class Sulk:
    """Refuses the records of a key until it feels better."""

    def __init__(self, key: str) -> None:
        self._refuse = refuse(key)
        self.is_better = False

    def __call__(self, record: Record) -> None:
        if not self.is_better:
            self._refuse(record)


# -- status, retry, skip ---------------------------------------------------------------------------


def test_a_parked_record_is_shown_and_retry_lets_it_go(job: MakeJob) -> None:
    orders, sulk = job(**PARKS_AT_ONCE), Sulk("key-3")
    orders.produce(keys_of(50, 5))
    first = keys_of(50, 5).index("key-3")
    with orders.running(handler=sulk) as pool:
        pool.journal.wait(lambda rows: len(rows) == 40)
        # (A look that the broker keeps waiting for 3 s leaves keys out.)
        [record] = eventually(lambda: [it for it in parked(orders) if it["key"]])
        assert (record["offset"], record["key"], record["attempts"]) == (first, "key-3", 1)
        assert record["key_hash"] == key_hash(b"key-3")
        assert record["member"] == pool.pool.name
        assert record["error"].startswith("RefusedError")
        seen = eventually(lambda: partition(orders), lambda it: it["remaining"]["records"] == 10)
        assert seen["stable"] == seen["holder"]["offset"] == first
        assert seen["remaining"] == {"records": 10, "known": 10, "is_exact": True}

        text = done(command(orders, "status", orders.group))
        assert f"✗ {orders.topic}-0 offset {first}: key key-3, holds the stable offset" in text
        assert re.search(r"▕[░▒▓]*✗[░▒▓]*▏ 10 left", text)

        value = status_of(orders.settings)
        assert [it.offset for it in value.partitions[0].parked] == [first]
        assert f"{orders.topic}-0" in (value._repr_html_() or "")

        sulk.is_better = True
        told = done(command(orders, "retry", orders.group, f"{orders.topic}-0", str(first)))
        assert f"offset {first} (key key-3): is tried again" in told
        pool.journal.wait(lambda rows: len(rows) == 50)
        healed = eventually(lambda: partition(orders), lambda it: it["stable"] == 50)
        assert healed["failed"] == []
        assert healed["holder"] is None


def test_many_parked_records_are_chosen_by_error_topic_and_key_and_decided_about_at_once(
    job: MakeJob,
) -> None:
    """One by one it took 1.6 s each."""
    count, is_better = 300, threading.Event()
    orders = job(**PARKS_AT_ONCE, **{"circuit.share": 0})

    def handler(record: Record) -> None:
        if not is_better.is_set():
            raise RefusedError("no route to db-7" if record.offset % 3 else "no such plane")

    keys = [f"key-{number}" for number in range(count)]
    orders.produce(keys)
    with orders.running(handler=handler) as pool:
        pool.wait_for_ranges()  # before that there is no group to ask about
        everything = ["--topic", orders.topic, "--dry-run"]
        eventually(
            lambda: done(command(orders, "retry", orders.group, *everything)),
            lambda told: "300 parked records would be decided about" in told,
        )
        is_better.set()
        some = done(command(orders, "skip", orders.group, "--error", "NO\nSUCH", "--key", "key-3"))
        assert f"{orders.topic}-0: 1 parked record, RefusedError: no such plane" in some
        assert "1 parked record: each counts as done" in some
        told = done(command(orders, "retry", orders.group, "--all"))
        pool.journal.wait(lambda rows: len(rows) == count - 1)
        assert "parked records: each is tried again" in told
        assert 3 not in pool.journal.offsets
        none = done(command(orders, "skip", orders.group, "--error", "no such"))
        assert "No parked record fits" in none
        none = done(command(orders, "retry", orders.group, "--key", "\udcff"))  # no UTF-8
        assert "No parked record fits" in none


def test_a_skipped_record_counts_as_done_and_its_key_goes_on(job: MakeJob) -> None:
    orders = job(**PARKS_AT_ONCE)

    def handler(record: Record) -> None:
        if record.offset == 1:
            raise RefusedError("never")

    orders.produce(["a", "\x1b[2Jb", "c", "\x1b[2Jb", "\x1b[2Jb"])
    with orders.running(handler=handler) as pool:
        pool.wait_for_ranges()
        eventually(lambda: parked(orders))
        told = done(command(orders, "skip", orders.group, f"{orders.topic}-0", "1"))
        assert r"offset 1 (key \x1b[2Jb): counts as done" in told  # no terminal obeys a key
        pool.journal.wait(lambda rows: len(rows) == 4)
        assert pool.journal.offsets == [0, 2, 3, 4]
        eventually(lambda: partition(orders)["stable"], lambda stable: stable == 5)


def test_a_decision_is_obeyed_by_the_next_member_if_nobody_is_there(job: MakeJob) -> None:
    orders = job(**PARKS_AT_ONCE)
    orders.produce(["a", "b", "b"])
    with orders.running(handler=refuse("b")) as pool:
        pool.wait_for_ranges()
        eventually(lambda: parked(orders))
    orders.wait_until_empty()
    told = done(command(orders, "retry", orders.group, f"{orders.topic}-0", "1"))
    assert "once a member owns it" in told
    assert orders.run_to_end().offsets == [1, 2]


def test_only_a_parked_record_can_be_decided_about(job: MakeJob) -> None:
    orders = job()
    orders.produce(["a", "b"])
    orders.run_to_end()
    refused = command(orders, "skip", orders.group, f"{orders.topic}-0", "1")
    assert refused.exit_code == ExitCode.CONFLICT
    assert "is done already" in refused.stderr
    absent = command(orders, "skip", orders.group, f"{orders.topic}-7", "1")
    assert absent.exit_code == ExitCode.MISSING
    assert f"{orders.topic}-7: does not exist" in absent.stderr
    beyond = command(orders, "retry", orders.group, f"{orders.topic}-0", "2")
    assert "is not there yet, the partition ends at 2" in beyond.stderr


def test_who_waits_for_whom_is_shown_while_a_handler_runs(job: MakeJob) -> None:
    # One slow key in each half of the hash space: whichever half moves, a running key moves.
    slow = [next(k for k in keys_of(50, 50) if key_hash(k.encode()) in half) for half in HALVES]
    orders, gate = job(), Gate(*slow)
    orders.produce([*slow, *keys_of(20, 10)])
    with orders.running(handler=gate) as old:
        gate.wait_for_arrival()
        with orders.running() as new:
            # Once everything else is released, what is waited for is the hash of the running key.
            [wait] = eventually(
                lambda: partition(orders)["handovers"],
                lambda found: [r["lo"] == r["hi"] for h in found for r in h["ranges"]] == [True],
            )
            assert (wait["waiting"], wait["holder"]) == (new.pool.name, old.pool.name)
            [at] = wait["ranges"]
            assert at["lo"] in {key_hash(key.encode()) for key in slow}
            acts = {
                key_hash(key.encode()): "running" if key_hash(key.encode()) != at["lo"] else "wait"
                for key in slow
            }
            held = eventually(
                lambda: partition(orders)["holder"], lambda it: it["standing_since_ms"]
            )
            assert held["standing"].startswith(acts[held["key_hash"]])
            gate.open()
            eventually(lambda: partition(orders)["handovers"], lambda found: found == [])


def test_a_handler_that_hangs_while_its_range_moves_is_told_as_overdue_where_it_runs(
    job: MakeJob,
) -> None:
    slow = [next(k for k in keys_of(50, 50) if key_hash(k.encode()) in half) for half in HALVES]
    orders, gate = job(**{"max.processing.ms": 500}), Gate(*slow)
    orders.produce([*slow, *keys_of(20, 10)])
    with orders.running(handler=gate) as old:
        gate.wait_for_arrival()
        eventually(lambda: old.pool.metrics().keys_overdue, lambda found: found == 2)
        with orders.running() as new:
            name = old.pool.name
            [moved] = eventually(
                lambda: [it for it in partition(orders)["failed"] if it["behind"]],
                lambda found: [it["overdue"] for it in found] == [True],
            )
            assert (moved["member"], moved["behind"]) == (new.pool.name, name)
            assert [it["command"].split()[1] for it in moved["commands"]] == ["read", "release"]
            shown = " ".join(done(command(orders, "status", orders.group)).split())
            assert "for its handler, which is overdue at " in shown
            figures = eventually(new.pool.metrics, lambda it: it.ranges_waiting == 1)
            assert (figures.phase, ready(new.pool.health()).ok) == ("waiting", False)
            gate.open()
            eventually(lambda: ready(new.pool.health()).ok)
            assert new.pool.metrics().ranges_waiting == 0


def test_a_person_releases_a_key_whose_handler_hangs_and_its_next_owner_begins(
    job: MakeJob,
) -> None:
    slow = [next(k for k in keys_of(50, 50) if key_hash(k.encode()) in half) for half in HALVES]
    orders, gate = job(), Gate(*slow)
    places = orders.produce([*slow, *keys_of(20, 10)])
    with orders.running(handler=gate) as old:
        gate.wait_for_arrival()
        with orders.running() as new:
            eventually(lambda: partition(orders)["handovers"], lambda found: len(found) == 1)
            shown = done(command(orders, "release", orders.group, "--dry-run"))
            assert f"{new.pool.name} waits" in shown
            assert f"for {old.pool.name}" in shown
            nobody = command(orders, "release", orders.group, "--holder", "somebody", "--yes")
            assert "nobody waits for somebody" in done(nobody)
            assert "Released." in done(command(orders, "release", orders.group, "--yes"))
            rows = new.journal.wait(lambda rows: any(row.key in slow for row in rows))
            assert {row.member for row in rows} == {new.pool.name}
            assert new.pool.counters.forced == 1
            gate.open()
            orders.wait_for_lag(0)
    assert {row.place for row in [*old.journal.rows, *new.journal.rows]} == set(places)


def test_a_plain_groups_offset_is_shown_as_someone_elses(job: MakeJob) -> None:
    orders = job()
    orders.produce(keys_of(20, 5))
    orders.plain_visit(7)
    told = status(orders)
    [seen] = told["partitions"]
    assert (seen["epoch"], seen["stable"], seen["committed"], seen["lag"]) == (0, 7, 7, 13)
    assert seen["remaining"] == {"records": 13, "known": 0, "is_exact": False}
    assert "someone else committed offset" in told["warnings"][0]
    assert seen["holder"]["offset"] == 7
    orders.run_to_end()
    after = status(orders)
    assert after["warnings"] == []
    assert (after["partitions"][0]["epoch"], after["partitions"][0]["lag"]) == (1, 0)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_plain_members_are_shown_with_whole_partitions(job: MakeJob, protocol: str) -> None:
    orders = job()
    orders.produce(["a"])
    settings = {**orders.client, "group.id": orders.group, "group.protocol": protocol}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([orders.topic])
        assert consumer.poll(WAIT_S) is not None
        told = json.loads(
            done(command(orders, "status", orders.group, "--json", "-t", orders.topic))
        )
        [member] = told["members"]
        assert (member["capacity"], [r["partition"] for r in member["ranges"]]) == (0, [0])
        refused = command(orders, "reset", orders.group, "--to", "latest", "-t", orders.topic)
        assert refused.exit_code == ExitCode.CONFLICT
        assert "has 1 member " in refused.stderr
    finally:
        consumer.close()


def test_a_group_or_topic_that_does_not_exist_is_said_to_be_missing(job: MakeJob) -> None:
    orders = job()
    for arguments in (["nobody-knows-me"], [orders.group, "--topic", "no-such-topic"]):
        missing = command(orders, "status", *arguments)
        assert missing.exit_code == ExitCode.MISSING
        assert "does not exist" in missing.stderr


def test_a_watched_status_is_one_line_of_json_a_time_until_interrupted(job: MakeJob) -> None:
    orders = job()
    orders.produce(["a"])
    orders.run_to_end()
    asked = ["status", orders.group, "--json", "--watch", "0.1"]
    bootstrap = str(orders.client["bootstrap.servers"])
    program = [sys.executable, "-m", "coop_consumer.cli", *asked, "--bootstrap", bootstrap]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            told = [json.loads(watching.stdout.readline()) for _ in range(2)]
            assert told[0]["at_ms"] < told[1]["at_ms"]
            watching.send_signal(signal.SIGINT)
            assert watching.wait(WAIT_S) == ExitCode.OK
        finally:
            watching.kill()


def test_a_deleted_group_is_shown_with_its_progress_which_goes_on_or_is_reset(job: MakeJob) -> None:
    orders = job(partitions=2)
    orders.produce(keys_of(20, 4))
    orders.run_to_end()
    stock.delete(orders.admin, orders.group)
    told = status(orders)
    assert [p["is_forgotten"] for p in told["partitions"]] == [True, True]
    assert [p["committed"] for p in told["partitions"]] == [None, None]
    assert sum(p["stable"] for p in told["partitions"]) == 20
    text = " ".join(done(command(orders, "status", orders.group)).split())
    assert "its committed offset was deleted, or has expired" in text
    place = f"{orders.topic}-0"
    assert f"coop-consumer reset {orders.group} --to earliest --partition {place}" in text

    orders.produce(keys_of(5, 4))
    assert len(orders.run_to_end().rows) == 5  # the next member goes on from the log
    stock.delete(orders.admin, orders.group)
    assert "2 of 2" in done(command(orders, "reset", orders.group, "--to", "earliest"))
    assert len(orders.run_to_end().rows) == 25


# -- reset -----------------------------------------------------------------------------------------


def test_reset_to_earliest_makes_all_records_come_again_once(job: MakeJob) -> None:
    orders = job(partitions=3)
    produced = sorted(orders.produce(keys_of(90, 30)))
    assert orders.run_to_end().places == produced
    dry = done(command(orders, "reset", orders.group, "--to", "earliest", "--dry-run"))
    assert "nothing was changed" in dry
    assert status(orders)["partitions"][0]["epoch"] == 1
    again = ["reset", orders.group, "--to", "earliest"]
    assert "3 of 3 partitions moved" in done(command(orders, *again))
    assert "0 of 3 partitions moved" in done(command(orders, *again))
    assert [p["epoch"] for p in status(orders)["partitions"]] == [2, 2, 2]
    assert {tag for _, tag in orders.committed().values()} == {"coop:2"}
    assert orders.run_to_end().places == produced
    assert orders.run_to_end().places == []


def test_reset_to_an_offset_a_time_or_the_end_moves_only_what_it_names(job: MakeJob) -> None:
    orders = job(partitions=2)
    orders.produce(keys_of(20, 5), partition=0)
    orders.produce(keys_of(20, 5), partition=1)
    orders.run_to_end()
    one = f"{orders.topic}-1"
    done(command(orders, "reset", orders.group, "--to", "15", "--partition", one))
    assert orders.run_to_end().places == [(1, offset) for offset in range(15, 20)]
    done(command(orders, "reset", orders.group, "--to", "2020-01-01", "--partition", one))
    assert orders.run_to_end().places == [(1, offset) for offset in range(20)]
    orders.produce(keys_of(5, 5), partition=0)
    done(command(orders, "reset", orders.group, "--to", "latest"))
    assert orders.run_to_end().places == []
    assert "0 of 2" in done(command(orders, "reset", orders.group, "--to", "4000000000000"))


def test_reset_outside_a_partition_or_of_one_that_is_not_there_changes_nothing(
    job: MakeJob,
) -> None:
    orders = job()
    orders.produce(["a"])
    orders.run_to_end()
    outside = command(orders, "reset", orders.group, "--to", "2")
    assert outside.exit_code == ExitCode.USAGE
    assert f"lies outside {orders.topic}-0, which holds offsets 0 to 1" in outside.stderr
    absent = command(orders, "reset", orders.group, "--to", "0", "-p", f"{orders.topic}-9")
    assert absent.exit_code == ExitCode.MISSING
    assert f"{orders.topic}-9: does not exist, the topic has no other than 0" in absent.stderr
    assert orders.committed() == {0: (1, "coop:1")}


def test_a_group_with_members_is_not_reset(job: MakeJob) -> None:
    orders = job()
    orders.produce(["a"])
    with orders.running() as pool:
        pool.journal.wait(lambda rows: len(rows) == 1)
        refused = command(orders, "reset", orders.group, "--to", "earliest")
        assert refused.exit_code == ExitCode.CONFLICT
        assert pool.pool.name in refused.stderr


def test_a_reset_that_broke_off_between_log_and_tag_is_completed_by_the_next_member(
    job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = job()
    orders.produce(keys_of(10, 5))
    orders.run_to_end()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(amend, "commit_from_outside", crash)
        broken = command(orders, "reset", orders.group, "--to", "earliest")
    assert broken.exit_code == ExitCode.INTERRUPTED
    assert orders.committed() == {0: (10, "coop:1")}
    assert orders.run_to_end().offsets == list(range(10))
    assert orders.committed() == {0: (10, "coop:2")}


def test_a_reset_that_broke_off_is_completed_by_repeating_it(
    job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = job()
    orders.produce(keys_of(10, 5))
    orders.run_to_end()
    with monkeypatch.context() as patch:
        patch.setattr(amend, "commit_from_outside", lambda *_: None)
        done(command(orders, "reset", orders.group, "--to", "4"))
    done(command(orders, "reset", orders.group, "--to", "4"))
    assert orders.committed() == {0: (4, "coop:2")}  # not 3: the epoch in the log is taken up


# -- doctor and run --------------------------------------------------------------------------------


def test_doctor_finds_a_broker_a_topic_and_a_group_fit(job: MakeJob) -> None:
    orders = job()
    orders.produce(["a"])
    orders.run_to_end()
    asked = ["doctor", "--group", orders.group, "--topics", orders.topic]
    told = json.loads(done(command(orders, *asked, "--json")))
    assert told["ok"] is True
    checks = {finding["check"] for finding in told["findings"]}
    expected = {"clients", "java", "broker", f"topic {orders.topic}", f"group {orders.group}"}
    assert expected <= checks
    assert f"ok    topic {orders.topic}: 1 partition, replication" in done(command(orders, *asked))


def test_doctor_prints_the_command_that_makes_a_missing_progress_topic(job: MakeJob) -> None:
    orders = job()
    settings = ["--config", "progress.topic=not-there", "--config", "progress.topic.create=false"]
    told = command(orders, "doctor", *settings, "--topics", "no-such-topic")
    assert told.exit_code == ExitCode.MISSING
    assert "fail  topic no-such-topic: does not exist" in told.stdout
    assert "fail  progress topic not-there: does not exist" in told.stdout
    assert "--create --topic not-there --partitions 50" in told.stdout


def test_doctor_looks_at_the_topics_that_handlers_send_to(job: MakeJob, topic: MakeTopic) -> None:
    orders, totals = job(), topic(3)
    settings = ["--config", f"output.topics={totals},no-such-topic"]
    told = command(orders, "doctor", *settings, "--topics", orders.topic)
    assert told.exit_code == ExitCode.MISSING
    assert f"ok    topic {totals}: for output, 3 partitions" in told.stdout
    assert "fail  topic no-such-topic: does not exist" in told.stdout
    assert "Nothing is written" in told.stdout


WORKER = """
from coop_consumer import Worker
class Quiet(Worker):
    def process(self, record): pass
"""


def test_run_processes_everything_and_leaves(
    job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = job()
    orders.produce(keys_of(50, 5))
    (tmp_path / "quiet_jobs.py").write_text(WORKER, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = threading.active_count()
    done(
        command(
            orders,
            *("run", "quiet_jobs:Quiet", "--topics", orders.topic, "--group", orders.group),
            *("--workers", "4", "--until", "caught-up", "--log-level", "warning"),
        )
    )
    assert orders.committed() == {0: (50, "coop:1")}
    assert threading.active_count() <= before + 1
    missing = command(orders, "run", "quiet_jobs:Quiet", "-t", "no-such-topic", "-g", orders.group)
    assert missing.exit_code == ExitCode.MISSING


# -- rights ----------------------------------------------------------------------------------------


def test_one_properties_file_logs_in_and_what_is_not_allowed_is_told(
    secured: EmbeddedBroker, root: AdminClient, group_id: str, tmp_path: Path
) -> None:
    orders, group = f"{group_id}-orders", group_id
    create_topic(root, orders)

    def as_user(user: str, *arguments: str, **changed: str) -> Result:
        settings = secured.client_config(user) | {f"sasl.{k}": v for k, v in changed.items()}
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{k}={v}\n" for k, v in settings.items()), encoding="utf-8")
        return CliRunner().invoke(app, [*arguments, "--config-file", str(file)])

    assert json.loads(done(as_user("root", "status", group, "--topic", orders, "--json")))
    refused = as_user("ann", "status", group)
    assert refused.exit_code == ExitCode.UNAUTHORIZED
    assert f"group {group}: user ann may not describe" in refused.stderr
    unanswered = as_user("ann", "scale", group, "--json")
    assert (unanswered.exit_code, unanswered.stdout) == (ExitCode.UNAUTHORIZED, "")
    impostor = as_user("ann", "status", group, password="guessed")  # noqa: S106 - a wrong one
    assert impostor.exit_code == ExitCode.UNAUTHORIZED
    assert "the broker refused to authenticate user ann" in impostor.stderr
    assert "guessed" not in impostor.output
    checked = as_user("ann", "doctor", "--topics", orders, "--group", group)
    assert checked.exit_code == ExitCode.UNAUTHORIZED
    assert f"fail  topic {orders}: user ann may not" in checked.stdout
    assert f"fail  group {group}: user ann may not describe" in checked.stdout
