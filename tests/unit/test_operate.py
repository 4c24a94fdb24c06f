"""What `make operate` has its Prometheus do, and what it says of programs that have ended."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.stock import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "operate.py"
UP = "generation "
HANDLES = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit({code}))\n"
IGNORES = "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
BEGINS = "print('here', flush=True)\n"
IS_UP = f"print('here, {UP}7', flush=True)\n"
WAITS = "import time\nwhile True: time.sleep(0.01)\n"


@pytest.fixture(scope="module")
def operate() -> Any:
    """The example as a module."""
    found = importlib.util.spec_from_file_location("operate", EXAMPLE)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("code", "is_clean"),
    [
        (HANDLES.format(code=0) + IS_UP + WAITS, True),
        (HANDLES.format(code=1) + IS_UP + WAITS, False),
        (HANDLES.format(code=1) + BEGINS + WAITS, False),
        (BEGINS + WAITS, True),
        (HANDLES.format(code=143) + BEGINS + WAITS, True),
        (IS_UP + WAITS, False),
        (HANDLES.format(code=143) + IS_UP + WAITS, False),
        (IGNORES + BEGINS + "os._exit(3)\n", False),
        (IGNORES + IS_UP + "os._exit(0)\n", True),
    ],
    ids=[
        *("in order", "with an error", "with an error before it was up"),
        *("by the signal before it was up", "at once before it was up"),
        *("by the signal", "at once", "by itself with an error", "by itself"),
    ],
)
def test_a_program_that_does_not_end_in_order_is_named(
    operate: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    code: str,
    *,
    is_clean: bool,
) -> None:
    log, failed = tmp_path / "member-0.log", list[str]()
    with operate.program(log, UP, failed, sys.executable, "-c", code):
        eventually(lambda: "here" in log.read_text())
    assert failed == ([] if is_clean else ["member-0"])
    told = capsys.readouterr().out
    assert ("member-0" in told, "here" in told) == (not is_clean, not is_clean)


def test_alerts_are_evaluated_as_often_as_figures_are_scraped(operate: Any) -> None:
    """By default it is once a minute: an alert saw one scrape, and took that for a standstill."""
    told = operate.scraping("127.0.0.1:1")["global"]
    assert told["evaluation_interval"] == told["scrape_interval"]
