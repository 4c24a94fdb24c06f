"""The pipeline example, as a newcomer starts it: on a standalone cluster of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.spark.conftest import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(300)]


def test_flights_on_spark_come_out_as_in_one_thread(bootstrap: str) -> None:
    program = ROOT / "examples/flights_on_spark.py"
    options = ["--records", "3000", "--tasks", "6", "--threads", "4"]
    ended = subprocess.run(
        [sys.executable, program, "--bootstrap", bootstrap, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    assert (told["records"], told["tasks"], told["partitions"]) == (3_000, 6, 3)
    assert (told["lost"], told["out_of_order"], told["repeated"]) == (0, 0, 0)
    assert (told["wrong_in_parquet"], told["wrong_by_streaming"]) == (0, 0)
