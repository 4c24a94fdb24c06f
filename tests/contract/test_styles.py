"""What every work style promises. Another style subclasses `StyleContract` and gives its worker."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from assignors import WHOLE
from coop_consumer import Record, Worker
from coop_consumer.core import actions, events
from tests.contract.crew import WAIT_S, Crew, Script
from tests.unit.core_member import HIGH, LOW, T0, keys_in

KEYS = [b"k%d" % (i % 7) for i in range(50)]


class StyleContract:
    """The promises."""

    def worker(self, script: Script) -> Worker:
        """A worker of this style that follows a script."""
        raise NotImplementedError

    def crew(self, script: Script, workers: int = 3, **settings: Any) -> Crew:
        """A member with such a worker."""
        return Crew(self.worker(script), script, workers, **settings)

    def test_every_record_is_processed_once_and_each_key_in_order(self) -> None:
        script = Script()
        with self.crew(script) as crew:
            crew.produce(*KEYS)
            crew.until_done(len(KEYS))
            crew.member.after(1_000)
            assert crew.member.store.progress().stable == len(KEYS)
        assert sorted(script.begun) == list(range(len(KEYS)))
        for key in set(KEYS):
            mine = [offset for offset in script.begun if KEYS[offset] == key]
            assert mine == sorted(mine)
        assert not script.overlapped

    def test_as_many_records_are_in_flight_as_there_are_workers(self) -> None:
        script = Script()
        script.held = {b"a", b"b", b"c", b"d"}
        with self.crew(script, workers=3) as crew:
            crew.produce(b"a", b"b", b"c", b"d", b"a")
            crew.until_begun(3)
            script.let_go(0)
            crew.until_begun(4)
            assert sorted(script.begun) in ([0, 1, 2, 3], [0, 1, 2, 4])
            for offset in (1, 2, 3, 4):
                script.let_go(offset)
            crew.until_done(5)
        assert script.at_once_max == 3

    def test_nothing_that_is_ready_waits_behind_a_slow_record(self) -> None:
        script = Script()
        script.held = {b"slow"}
        with self.crew(script, workers=2) as crew:
            crew.produce(b"slow", *KEYS)
            crew.until_done(len(KEYS))
            crew.member.after(1_000)
            (fact,) = crew.member.store.progress().clip(WHOLE)
            assert (fact.stable, [str(gap) for gap in fact.gaps]) == (0, ["[1-50]"])
            script.let_go(0)
            crew.until_done(len(KEYS) + 1)

    def test_a_failed_record_is_tried_again_before_the_rest_of_its_key(self) -> None:
        script = Script()
        script.raises = {b"a": [ValueError("once"), ValueError("twice")]}
        with self.crew(script, attempt_backoff_ms=10, max_attempts=3) as crew:
            crew.produce(b"a", b"b", b"a")
            for count in (1, 2):
                crew.until_failed(count)
                crew.member.after(60_000)
            crew.until_done(3)
        assert [offset for offset in script.begun if offset != 1] == [0, 0, 0, 2]

    @pytest.mark.parametrize(
        "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()]
    )
    def test_whatever_is_raised_fails_its_record_alone(self, error: BaseException) -> None:
        script = Script()
        script.raises = {b"a": [error]}
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"a", b"b", b"a")
            crew.until_failed(1)
            crew.until_done(1)
            crew.member.after(1_000)
            (parked,) = crew.member.store.attempts().values()
            assert parked.parked
            assert type(error).__name__ in parked.error
        assert sorted(script.begun) == [0, 1]

    def test_of_a_range_that_goes_what_runs_ends_and_the_rest_is_not_begun(self) -> None:
        script = Script()
        low, high = keys_in(LOW, 2), keys_in(HIGH, 1)
        script.held = {low[0], high[0]}
        with self.crew(script, workers=2) as crew:
            crew.produce(low[0], high[0], low[1], low[0])
            crew.until_begun(2)
            crew.member.assign(HIGH)
            script.let_go(0)
            crew.until(
                lambda: not any(p.draining for p in crew.member.core.state.partitions.values())
            )
            script.let_go(1)
            crew.until_done(2)
            released = crew.member.store.tenures()[0].record.released
            assert released == (LOW,)
        assert script.begun == [0, 1]

    def test_paused_it_begins_nothing_and_goes_on_where_it_was(self) -> None:
        script = Script()
        with self.crew(script) as crew:
            crew.executor.pause(True)
            crew.produce(*KEYS)
            assert script.begun == []
            crew.executor.pause(False)
            crew.until_done(len(KEYS))

    def test_a_stop_waits_for_what_runs(self) -> None:
        script = Script()
        script.held = {b"a"}
        with self.crew(script) as crew:
            crew.produce(b"a")
            crew.until_begun(1)
            crew.executor.pause(True)
            script.let_go(0)
        crew.member.tell(events.Tick())
        assert crew.member.core.state.counters.finished == 1

    def test_one_that_hangs_is_replaced_and_what_it_does_late_counts_for_nothing(self) -> None:
        script = Script()
        script.held = {b"hangs"}
        with self.crew(
            script, workers=1, max_processing_ms=1_000, on_overdue="fail", max_attempts=1
        ) as crew:
            crew.produce(b"hangs", b"b")
            crew.until_begun(1)
            for _ in range(20):
                crew.member.after(100)
            (told,) = crew.member.told(actions.AbandonLane)
            assert "in process" in crew.executor.stack(told.lane)
            crew.executor.abandon(told.lane)
            crew.until_done(1)
            script.let_go(0)
        crew.member.tell(events.Tick())
        assert crew.member.core.state.counters.finished == 1
        assert list(crew.member.core.state.partitions[T0].tenures[0].attempts) == [0]


class TestThreads(StyleContract):
    """`def process(self, record)`."""

    def worker(self, script: Script) -> Worker:
        """On threads."""

        class OnThreads(Worker):
            def process(self, record: Record) -> None:
                gate = script.begin(record)
                try:
                    if gate is not None:
                        gate.result(WAIT_S)
                finally:
                    script.end(record)

        return OnThreads()


class TestUvloop(StyleContract):
    """`async def process(self, record)`, where uvloop is installed."""

    def worker(self, script: Script) -> Worker:
        """On an event loop."""

        class OnLoop(Worker):
            async def process(self, record: Record) -> None:
                gate: Future[None] | None = script.begin(record)
                try:
                    if gate is not None:
                        await asyncio.wait_for(asyncio.wrap_future(gate), WAIT_S)
                finally:
                    script.end(record)

        return OnLoop()


class TestEventLoop(TestUvloop):
    """The same, where it is not."""

    @pytest.fixture(autouse=True)
    def without_uvloop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("coop_consumer.styles._new_event_loop", asyncio.new_event_loop)
