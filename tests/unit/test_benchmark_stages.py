"""The stages of a record, measured: also where the machine keeps a thread from its core."""

from __future__ import annotations

from threading import current_thread
from time import monotonic

import pytest

from benchmarks import stages
from benchmarks.stages import BATCH, BusyError, Stages, measured
from coop_consumer.core.record import Record
from coop_consumer.executors import threads
from tests.support.journal import WAIT_S

KEYS = [b"k%d" % (number % 500) for number in range(3 * BATCH)]


def test_all_records_are_taken_through_all_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_BACK_S", WAIT_S)  # however busy the machine is
    it = Stages(KEYS)
    it.run()
    assert it.is_measured
    assert len(it.watch.ns) == 4


def test_a_run_whose_thread_is_kept_ends_and_is_not_measured() -> None:
    def handler(record: Record) -> None:
        # An idle thread may take records, too, before the member's does.
        is_members = record.offset >= BATCH and current_thread().name == "stages"
        until_s = monotonic() + WAIT_S
        while is_members and not it.handed_over.is_set():
            assert monotonic() < until_s, "nobody goes on"

    it = Stages(KEYS, handler)
    it.run()
    assert it.handed_over.is_set()
    assert not it.is_measured


def test_a_machine_on_which_no_run_is_measured_is_told_to_be_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stages.Stages, "run", lambda _: None)
    with pytest.raises(BusyError, match="0 of 5 runs were on one thread, and 1 are wanted"):
        measured(KEYS, 1)
