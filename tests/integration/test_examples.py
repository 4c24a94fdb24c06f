"""Each example alone, as a newcomer starts it, and what it must have printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.linearizable import calls_of, unexplained
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TIMEOUT_S = 110


def run(bootstrap: str, name: str, *options: str) -> str:
    """What the example printed; it must end well, and without a traceback."""
    ended = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", "--bootstrap", bootstrap, *options],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "/coop_consumer/" not in ended.stderr, "what its handler raises is shown, and no more"
    return ended.stdout


def fresh(name: str) -> str:
    return f"{name}-{uuid4().hex[:8]}"


def test_hello_worker_is_in_order_and_faster_than_one_worker(bootstrap: str) -> None:
    told = run(bootstrap, "hello_worker", "--topic", fresh("hello"))
    line = re.search(r"2000 orders in ([0-9.]+) s, 0 out of order", told)
    assert line is not None, told
    assert float(line[1]) < 20
    assert "one worker would need 20 s" in told


def test_retry_and_park_holds_back_one_key_alone(bootstrap: str) -> None:
    told = run(bootstrap, "retry_and_park", "--topic", fresh("fragile"))
    assert len(re.findall(r"flaky \d: done at attempt 3", told)) == 5, told
    assert "all other keys are done; of the poisoned one 1 of 5" in told
    assert "after the skip: 4 of 5, 19 done in all" in told


def test_many_processes_share_one_partition(bootstrap: str) -> None:
    told = run(bootstrap, "many_processes", "--topic", fresh("many"), "--processes", "3")
    counts = [int(n.replace(",", "")) for n in re.findall(r"process \d: ([\d,]+) records", told)]
    assert len(counts) == 3
    assert min(counts) > 0, told
    assert "together: 8,000 of 8,000 records" in told


def test_buffered_output_writes_every_row_in_few_transactions(bootstrap: str) -> None:
    told = run(bootstrap, "buffered_output", "--topic", fresh("archive"))
    line = re.search(r"20,000 of 20,000 orders are in the database, in (\d+) transactions", told)
    assert line is not None, told
    assert int(line[1]) < 1_000


def test_exactly_once_has_each_total_once_however_often_its_process_is_killed(
    bootstrap: str,
) -> None:
    told = run(bootstrap, "exactly_once", "--topic", fresh("payments"), "--kills", "3")
    assert "kill -9, number 2" in told
    assert "10,000 totals of 10,000 payments" in told
    assert "of 100 of 100 customers all are there, once, in order, and right" in told


def test_operate_shows_a_stuck_key_and_where_to_look_and_ends_clean(
    bootstrap: str, tmp_path: Path
) -> None:
    group, told = fresh("payments"), ""
    command = [sys.executable, EXAMPLES / "operate.py", "--bootstrap", bootstrap, "--topic", group]
    with (
        (tmp_path / "errors").open("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as operate,
    ):
        try:
            assert operate.stdout is not None
            for line in operate.stdout:
                told += line
                if line.startswith("Ctrl-C"):
                    break
            # `timeout make operate` sends two: to make, which passes it on, and to all of its group
            operate.terminate()
            operate.terminate()
            told += operate.communicate(timeout=TIMEOUT_S)[0]
        finally:
            operate.kill()
        errors.seek(0)
        assert operate.returncode == 0, errors.read()
    assert re.search(rf"customer-13 is stuck: {group}-\d@\d+ is parked after 3 attempts", told)
    assert f"coop-consumer skip {group} " in told
    assert told.endswith("all have ended\n"), told


def test_kv_store_is_one_store_while_leaders_are_killed_and_moved(
    bootstrap: str, tmp_path: Path
) -> None:
    history = tmp_path / "history"
    options = ("--topic", fresh("kv"), "--history", str(history), "--seconds", "6")
    told = run(bootstrap, "kv_store", *options)
    assert told.count("kill -9") == 2
    assert "extra leads shard" in told, "no leader that lived was moved"
    calls = calls_of(history.read_text().splitlines())
    assert len(calls) > 100, told
    assert unexplained(calls) is None


def test_kv_store_is_one_store_though_every_server_leads(bootstrap: str, tmp_path: Path) -> None:
    history = tmp_path / "history"
    options = ("--topic", fresh("kv"), "--history", str(history), "--seconds", "4")
    told = run(bootstrap, "kv_store", *options, "--kills", "1", "--everyone")
    assert " conflict" in told, "nobody has met another leader"
    assert unexplained(calls_of(history.read_text().splitlines())) is None


def test_kv_store_without_asking_the_log_returns_old_values(bootstrap: str, tmp_path: Path) -> None:
    """The judge finds what must not be: two leaders, of which one has not read the newest."""
    history = tmp_path / "history"
    options = ("--topic", fresh("kv"), "--history", str(history), "--seconds", "4")
    run(bootstrap, "kv_store", *options, "--kills", "0", "--everyone", "--stale")
    assert unexplained(calls_of(history.read_text().splitlines())) is not None


def test_an_offset_store_that_is_killed_has_all_offsets_of_a_commit_or_none(
    bootstrap: str,
) -> None:
    told = run(bootstrap, "offset_store", "--topic", fresh("offsets"), "--kills", "4")
    found = re.findall(r"kill -9, number \d: 100 offsets at \{(\d+)\}\n", told)
    assert len(found) == 4, told
    assert sorted(map(int, found)) == [int(it) for it in found]
    assert re.search(r"who expects 3 finds OffsetEntry\(offset=\d+, metadata='commit \d+'", told), (
        told
    )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("exclusive_producer", "2,000 copies of 2,000 orders, each once, in order"),
        ("paired_offsets", "372 words of 3 texts, each once, in order"),
        ("checkpoint", "1,000 totals of 1,000 payments; the last one: 1000 249500"),
        ("offset_changelog", "50 pages, 4,000 of 4,000 views counted\neach page is right"),
        ("merge_log", "orders: each once, in order\npayments: each once, in order"),
        ("deduplicate", "2,000 without repeats, of 2,000 views"),
        ("conditional_producer", "5,000 prices; 100 numbers, each once"),
    ],
)
def test_an_output_is_there_once(bootstrap: str, name: str, told: str) -> None:
    """They are killed in test_patterns_killed.py."""
    assert told in run(bootstrap, name, "--topic", fresh(name))


def test_flights_follows_every_aircraft(bootstrap: str) -> None:
    told = run(bootstrap, "flights", "--prefix", fresh("new-york"), "--records", "3000")
    assert "3,000 legs" in told
    assert re.search(r"half of all aircraft were back within [\d.]+ hours", told), told


@pytest.mark.parametrize(
    "example",
    [it for it in sorted(EXAMPLES.glob("*.py")) if '"--topic"' in it.read_text()],
    ids=lambda path: path.stem,
)
def test_an_example_whose_topic_is_there_already_says_so(bootstrap: str, example: Path) -> None:
    """As when it is started twice: no traceback, and what to do."""
    name = fresh("again")
    create_topic(AdminClient({"bootstrap.servers": bootstrap}), name)
    ended = subprocess.run(
        [sys.executable, example, "--bootstrap", bootstrap, "--topic", name],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 1
    # librdkafka may add a line ("%6|…") as its client goes, on a busy machine.
    told = [line for line in ended.stderr.splitlines() if not line.startswith("%")]
    assert told == [f"{name}: Topic '{name}' already exists. Is a broker up? A new --topic?"]


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_tells_how_to_start_it(example: Path) -> None:
    text = example.read_text()
    told = text.split('"""')[1]
    assert f"python examples/{example.name} --bootstrap" in told
    flags = set(re.findall(r"add_argument\(\"(--\w+)\"", text))
    assert flags == set(re.findall(r"^(--\w+) ", told, re.MULTILINE))
