"""How processes share the suite."""

from __future__ import annotations

from tests.support.sharing import Shares, rank_of

PLAN = "tests/spark/test_planned.py::test_one"
SOURCE = "tests/spark/test_source.py::test_one[a::b]"
ONCE = "tests/integration/test_exactly_once.py::test_one"
MEMBERS = "tests/integration/membership/test_failures.py::test_one"
CHAOS = "tests/chaos/test_chaos.py::test_one"
UNIT = "tests/unit/test_spark_slices.py::test_one"
DOCTEST = "offsets/codec.py::offsets.codec.decode"


def test_sparks_files_go_to_one_process_and_any_other_file_stays_together() -> None:
    shares = object.__new__(Shares)  # its scheduling needs processes
    assert [shares._split_scope(it) for it in (PLAN, SOURCE)] == ["tests/spark"] * 2
    for it in (ONCE, MEMBERS, CHAOS, UNIT, DOCTEST):
        assert shares._split_scope(it) == it.partition("::")[0]


def test_what_waits_begins_before_what_only_computes() -> None:
    mixed = [DOCTEST, CHAOS, ONCE, MEMBERS, SOURCE, PLAN, UNIT]
    assert sorted(mixed, key=rank_of) == [SOURCE, PLAN, CHAOS, ONCE, MEMBERS, DOCTEST, UNIT]
