"""The module that PySpark imports in every session of this Python: it never raises."""

from __future__ import annotations

import runpy
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

import streams_adapter
from streams_adapter.format import KeyRangeSource

HOME = Path(streams_adapter.__file__).parent / "for_pyspark" / "pyspark_keyrange" / "__init__.py"


def test_pyspark_finds_the_format_under_a_name_that_it_looks_for() -> None:
    assert runpy.run_path(str(HOME))["DefaultSource"] is KeyRangeSource
    assert HOME.parent.name in (distribution("coop-consumer").read_text("top_level.txt") or "")


def test_where_something_is_missing_other_formats_are_not_concerned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "streams_adapter.format", None)
    assert "DefaultSource" not in runpy.run_path(str(HOME))
    assert "format keyrange is not known to Spark" in caplog.text
