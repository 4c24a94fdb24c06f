"""The pipeline example, as a newcomer starts it: on a standalone cluster of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.conftest import ROOT
from tests.support import jvm

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(300)]


PROGRAM = ROOT / "examples/flights_on_spark.py"


def test_flights_on_spark_come_out_as_in_one_thread(bootstrap: str, tmp_path: Path) -> None:
    settings = "".join(f"{name} {value}\n" for name, value in jvm.SETTINGS.items())
    (tmp_path / "spark-defaults.conf").write_text(settings)
    options = ["--records", "3000", "--tasks", "6", "--threads", "4"]
    ended = subprocess.run(
        [sys.executable, PROGRAM, "--bootstrap", bootstrap, *options],
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path), "SPARK_DAEMON_JAVA_OPTS": jvm.OPTIONS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    assert (told["records"], told["tasks"], told["partitions"]) == (3_000, 6, 3)
    assert told["ranges"] >= 2 * 3, "at least two ranges a partition"
    assert told["ideal"] == round(3_000 * 0.005 / 24, 1)
    assert told["seconds"] > 0
    assert (told["lost"], told["out_of_order"], told["repeated"]) == (0, 0, 0)
    assert (told["wrong_in_parquet"], told["wrong_by_streaming"]) == (0, 0)


JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "%d.0.1" 2020-01-01' >&2; exit; fi
echo "there is no room for a machine" >&2
exit 3
"""


@pytest.mark.parametrize(
    ("major", "said"),
    [
        (None, "Spark needs Java 17 or newer, and .*/bin/java is none"),
        (11, "Spark needs Java 17 or newer, and .*/bin/java is Java 11"),
        (17, r"(?s)nobody listens at .*, exit code \d.*there is no room for a machine"),
    ],
)
def test_without_a_java_that_works_it_says_so(
    bootstrap: str, tmp_path: Path, major: int | None, said: str
) -> None:
    if major is not None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/java").write_text(JAVA % major)
        (tmp_path / "bin/java").chmod(0o755)
    ended = subprocess.run(
        [sys.executable, PROGRAM, "--bootstrap", bootstrap, "--records", "30"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert re.search(said, ended.stderr), ended.stderr
