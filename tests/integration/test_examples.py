"""Each example alone, as a newcomer starts it, and what it must have printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples"
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
    assert "Traceback" not in ended.stderr
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


def test_flights_follows_every_aircraft(bootstrap: str) -> None:
    told = run(bootstrap, "flights", "--prefix", fresh("new-york"), "--records", "3000")
    assert "3,000 legs" in told
    assert re.search(r"half of all aircraft were back within [\d.]+ hours", told), told


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_tells_how_to_start_it(example: Path) -> None:
    text = example.read_text()
    told = text.split('"""')[1]
    assert f"python examples/{example.name} --bootstrap" in told
    flags = set(re.findall(r"add_argument\(\"(--\w+)\"", text))
    assert flags == set(re.findall(r"^(--\w+) ", told, re.MULTILINE))
