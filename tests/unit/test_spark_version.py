"""PySpark that is missing or too old is said at the door, before anything of it is loaded."""

from __future__ import annotations

import sys

import pyspark
import pytest

import streams_adapter
from coop_consumer.errors import MisuseError


@pytest.fixture(autouse=True)
def _unknown_yet() -> None:
    streams_adapter.check_spark.cache_clear()


@pytest.mark.parametrize("found", ["4.1.2", "3.5.1"])
def test_an_old_one(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", found)
    with pytest.raises(MisuseError, match=rf"4\.2 is needed, this is {found}.*pip install"):
        streams_adapter.check_spark()


@pytest.mark.parametrize("found", ["4.2.0", "4.10.0.dev1", "5.0"])
def test_a_new_one(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", found)
    streams_adapter.check_spark()


def test_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MisuseError, match="none is here"):
        _ = streams_adapter.__getattr__("plan")


def test_all_names_have_homes() -> None:
    assert all(getattr(streams_adapter, name) is not None for name in streams_adapter.__all__)
    with pytest.raises(AttributeError, match="no attribute 'plans'"):
        _ = streams_adapter.plans
