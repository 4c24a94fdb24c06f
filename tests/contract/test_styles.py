"""What every work style promises. Another style subclasses `StyleContract` and gives its worker."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest

from assignors import WHOLE, KeyRange, TopicPartition
from coop_consumer import BatchFailure, Record, Worker
from coop_consumer.core import actions, events
from coop_consumer.core.lane import HELD
from coop_consumer.core.member import MemberCore
from coop_consumer.styles import event_loop
from coop_consumer.worker import BatchResult
from tests.simulation.data_log import SimMessage
from tests.support.crew import WAIT_S, Crew, Script, changed
from tests.support.desk import Desk, NamelessError, RemoteBatchWorker, RemoteWorker
from tests.unit.core_member import HIGH, LOW, T0, keys_in

KEYS = [b"k%d" % (i % 7) for i in range(50)]
OVERDUE_FAILS = {"max_processing_ms": 1_000, "on_overdue": "fail", "max_attempts": 1}


def nothing_runs(core: MemberCore) -> bool:
    """Whether all that is filed waits: for its back-off, or because it is held back."""
    with core.state.lock:
        filed = core.lanes.tables.of(T0).values()
        waiting = set(map(id, core.lanes.queue.held_back or ()))
        return all(id(it) in waiting or getattr(it, "state", None) is HELD for it in filed)


class StyleContract:
    """The promises.

    Attributes:
        records_at_once: How many records a worker has in its hands.
        runs_elsewhere: Handlers run in other processes, and raise copies of errors.
    """

    records_at_once = 1
    executor = "thread"
    runs_elsewhere = False

    def worker(self, script: Script) -> Worker:
        """A worker of this style that follows a script."""
        raise NotImplementedError

    def crew(self, script: Script, workers: int = 1, **settings: Any) -> Crew:
        """A member with such a worker."""
        return Crew(self.worker(script), script, workers, executor=self.executor, **settings)

    def test_every_record_is_processed_once_and_each_key_in_order(self) -> None:
        self.go_through_all(workers=1)

    def go_through_all(self, workers: int) -> None:
        """Process records of seven keys, and judge."""
        script = Script()
        with self.crew(script, workers=workers) as crew:
            crew.produce(*KEYS)
            crew.until_done(len(KEYS))
            crew.member.after(1_000)
            assert crew.member.store.progress().stable == len(KEYS)
        assert sorted(script.begun) == list(range(len(KEYS)))
        for key in set(KEYS):
            mine = [offset for offset in script.begun if KEYS[offset] == key]
            assert mine == sorted(mine)
        assert not script.overlapped

    def test_the_time_that_handlers_take_is_measured(self) -> None:
        script = Script()
        script.takes_s = 0.02
        with self.crew(script, workers=1) as crew:
            crew.produce(*KEYS)
            crew.until_done(len(KEYS))
        crew.member.after(1_000)
        work = crew.member.core.lanes.work
        assert work.workers == 1
        if self.runs_elsewhere:  # a child goes on while its parent takes in what it has done
            assert 0 < work.cost_ps <= 2 * 10**10
        else:
            assert work.total_s == pytest.approx(0.02 * len(KEYS))
            assert work.cost_ps == pytest.approx(2 * 10**10)

    def test_the_time_of_a_handler_that_runs_is_told_before_it_ends(self) -> None:
        """Members whose handlers take minutes would look idle."""
        script = Script()
        script.takes_s, script.held = 0.02, {b"a"}
        with self.crew(script, workers=1) as crew:
            work = crew.member.core.lanes.work
            assert work.running_s() == 0
            crew.produce(b"a")
            crew.until_begun(1)
            script.now_s += 60
            assert work.running_s() == pytest.approx(60)
            crew.let_all_go()
            crew.until_done(1)
        crew.member.after(1_000)
        assert work.running_s() == 0
        assert work.busy_s == pytest.approx(60, abs=0.1)

    @pytest.mark.parametrize(("takes_s", "turn"), [(0.05, 1), (0.005, 10)])
    def test_keys_have_turns_of_a_moment_however_long_a_record_takes(
        self, takes_s: float, turn: int
    ) -> None:
        script, keys = Script(), [b"k%d" % (number % 16) for number in range(16 * 40)]
        script.takes_s = takes_s
        with self.crew(script, workers=1) as crew:
            crew.executor.pause(True)
            crew.produce(*keys)
            crew.until_done(len(keys))
        assert script.longest_wait(keys) <= 16 * (turn + 1) + 4 * self.records_at_once

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

    def test_outputs_go_along_with_finished_records_and_those_of_failed_attempts_do_not(
        self,
    ) -> None:
        script = Script()
        script.raises = {b"a": [ValueError("once")]}
        script.sends = True
        with self.crew(script, attempt_backoff_ms=10, max_attempts=3) as crew:
            crew.produce(b"a", b"b", b"a")
            crew.until_failed(1)
            crew.member.after(60_000)
            crew.until_done(3)
            crew.member.after(1_000)
            sent = crew.sent()
        assert sorted(sent) == ["0.2", "1.1", "2.1"]
        assert sent.index("0.2") < sent.index("2.1")

    def test_what_a_handler_assigns_to_its_record_is_its_own_and_forgotten_by_the_next_attempt(
        self,
    ) -> None:
        script = Script()
        script.raises = {b"a": [ValueError("once"), ValueError("twice")]}
        script.assigns = True
        with self.crew(script, attempt_backoff_ms=10, max_attempts=3) as crew:
            crew.produce(b"a", b"b", b"a")
            for count in (1, 2):
                crew.until_failed(count)
                crew.member.after(60_000)
            crew.until_done(3)
            crew.member.after(1_000)
            assert crew.member.store.progress().stable == 3
        assert sorted(script.begun) == [0, 0, 0, 1, 2]

    def test_the_first_and_the_last_attempt_are_told_with_where_it_was_raised(self) -> None:
        script = Script()
        script.raises = {b"a": [ValueError("once"), ValueError("twice"), ValueError("for good")]}
        with self.crew(script, attempt_backoff_ms=10, max_attempts=3) as crew:
            crew.produce(b"a")
            for count in (1, 2, 3):
                crew.until_failed(count)
                crew.member.after(60_000)
            told = [it.failure for it in crew.member.told(actions.LogLine) if it.failure]
        assert [failure.line for failure in told] == ["ValueError: once", "ValueError: for good"]
        for failure in told:
            files = [place.file for raised in failure.chain for place in raised.places]
            assert files or self.runs_elsewhere, "a batch names errors there that nobody raised"
            assert not any("executors" in file for file in files), "who called it is not of it"

    def test_while_most_fails_alike_one_record_is_begun_at_a_time_until_one_succeeds(self) -> None:
        script, keys = Script(), [b"key-%d" % number for number in range(12)]
        script.raises = {key: [ConnectionError("no route")] * 9 for key in keys}
        settings = {"circuit_keys": 2, "circuit_open_ms": 1_000, "attempt_backoff_ms": 10}
        with self.crew(script, workers=1, **settings) as crew:
            core = crew.member.core
            crew.produce(*keys)
            crew.until(lambda: core.circuit.is_open)
            crew.until(lambda: nothing_runs(core))  # what ran when it opened
            for _ in range(3):
                begun = len(script.begun)
                crew.member.after(1_000)
                crew.until_failed(begun + 1)
                assert len(script.begun) == begun + 1
            script.raises.clear()
            crew.member.after(1_000)
            crew.until_done(len(keys))
            assert not core.circuit.is_open
            crew.member.after(1_000)  # the commit
            assert not crew.member.store.attempts()

    def test_no_frame_of_a_handler_outlives_its_failure(self) -> None:
        """Clients raise the same error again and again, and parked records wait for days."""
        cause, context = OSError("reset"), LookupError("cached")
        error = ValueError("away")
        error.__cause__, cause.__context__ = cause, context
        for known in (cause, context):
            with contextlib.suppress(Exception):
                raise known
        script = Script()
        script.raises = {b"a": [error]}
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"a", b"b")
            crew.until_failed(1)
            crew.until_done(1)
        assert self.runs_elsewhere or not any(
            known.__traceback__ for known in (error, cause, context)
        )

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

    def test_a_record_that_is_skipped_counts_as_done_and_its_key_goes_on(self) -> None:
        script = Script()
        script.raises = {b"a": [ValueError("for good")]}
        with self.crew(script, on_failure="skip", max_attempts=1) as crew:
            crew.produce(b"a", b"b", b"a")
            crew.until_done(3)
            crew.member.after(1_000)
            assert crew.member.store.progress().stable == 3
        assert sorted(script.begun) == [0, 1, 2]
        assert crew.member.core.state.counters.skipped == 1

    def test_a_dead_letter_counts_as_done_once_it_is_safe_and_its_key_goes_on(self) -> None:
        script = Script()
        script.raises = {b"a": [ValueError("for good")]}
        with self.crew(script, on_failure="dead_letter", max_attempts=1) as crew:
            crew.produce(b"a", b"b", b"a")
            crew.until_failed(1)
            crew.until_done(1)
            assert sorted(script.begun) == [0, 1]
            (letter,) = crew.member.told(actions.DeadLetter)
            assert (letter.record.offset, letter.error) == (0, "ValueError: for good")
            crew.member.tell(events.DeadLettered(letter.record, None))
            crew.until_done(3)
        assert sorted(script.begun) == [0, 1, 2]

    def test_what_is_done_behind_a_record_that_waits_is_committed_as_gaps(self) -> None:
        script = Script()
        script.raises = {b"waits": [ValueError("for good")]}
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"waits", *KEYS, b"waits")
            crew.until_done(len(KEYS))
            crew.until_failed(1)
            crew.member.after(1_000)
            (fact,) = crew.member.store.progress().clip(WHOLE)
            assert (fact.stable, [str(gap) for gap in fact.gaps]) == (0, ["[1-50]"])
        assert len(script.begun) == 1 + len(KEYS)

    def test_records_without_a_key_wait_for_none_of_their_kind(self) -> None:
        script = Script()
        script.raises = {None: [ValueError("one of them")]}
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(None, b"", None)
            crew.until_failed(1)
            crew.until_done(2)
            crew.member.after(1_000)
            (offset,) = crew.member.store.attempts()
        assert offset in {0, 2}
        assert sorted(script.begun) == [0, 1, 2]

    def test_of_a_range_that_goes_what_runs_ends_and_the_rest_is_not_begun(self) -> None:
        script = Script()
        *low, queued = keys_in(LOW, self.records_at_once + 1)
        script.held = set(low)
        with self.crew(script, workers=1) as crew:
            crew.produce(*low)
            crew.until_begun(len(low))
            crew.produce(queued, low[0])
            crew.member.assign(HIGH)
            for offset in range(len(low)):
                script.let_go(offset)
            crew.until(lambda: crew.member.store.tenures()[0].record.released == (LOW,))
        assert sorted(script.begun) == list(range(len(low)))

    def test_paused_it_begins_nothing_and_goes_on_where_it_was(self) -> None:
        script = Script()
        with self.crew(script) as crew:
            crew.executor.pause(True)
            crew.produce(*KEYS)
            assert script.begun == []
            crew.executor.pause(False)
            crew.until_done(len(KEYS))

    def test_paused_it_begins_nothing_of_what_it_has_taken_either(self) -> None:
        script, fits = Script(), self.records_at_once
        keys = [b"k%d" % number for number in range(fits)]
        script.held = set(keys)
        with self.crew(script, workers=1) as crew:
            crew.produce(*keys)
            crew.until_begun(fits)
            crew.produce(*keys)
            for offset in range(fits):
                script.let_go(offset)
            crew.until_begun(2 * fits)
            crew.produce(*keys)  # they join the lanes that are at work
            crew.executor.pause(True)
            script.held = set()
            for offset in range(fits, 2 * fits):
                script.let_go(offset)
            crew.until_done(2 * fits, paused=True)
            assert len(script.begun) == 2 * fits
            crew.until_done(3 * fits)

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


class ParallelContract(StyleContract):
    """What styles promise that process several records, or batches, at a time."""

    def crew(self, script: Script, workers: int = 3, **settings: Any) -> Crew:
        return super().crew(script, workers, **settings)

    def test_many_workers_keep_the_order_of_each_key(self) -> None:
        self.go_through_all(workers=3)

    def test_so_many_are_in_flight_as_there_are_workers(self) -> None:
        script, fits = Script(), 2 * self.records_at_once
        keys = [b"k%d" % number for number in range(50)]
        script.held = set(keys)
        with self.crew(script, workers=2) as crew:
            crew.produce(*keys)
            crew.until_begun(fits)
            for offset in range(len(keys)):
                script.let_go(offset)
            crew.until_done(len(keys))
        assert script.at_once_max == fits

    def test_more_workers_take_what_was_ready_before_they_came(self) -> None:
        script, fits = Script(), self.records_at_once
        keys = [b"k%d" % number for number in range(12 * fits)]
        script.held = set(keys)
        with self.crew(script, workers=1) as crew:
            crew.produce(*keys)
            crew.until_begun(fits)
            crew.executor.resize(2)
            crew.until_begun(2 * fits)
            assert script.at_once_max == 2 * fits
            crew.let_all_go()
            crew.until_done(len(keys))
        assert sorted(script.begun) == list(range(len(keys)))

    def test_fewer_workers_finish_what_they_have_begun_and_begin_less(self) -> None:
        script, fits = Script(), self.records_at_once
        keys = [b"k%d" % number for number in range(12 * fits)]
        script.held = set(keys)
        with self.crew(script, workers=2) as crew:
            crew.produce(*keys)
            crew.until_begun(2 * fits)
            crew.executor.resize(1)
            assert len(script.begun) == 2 * fits
            crew.let_all_go()
            crew.until_done(len(keys))
            script.held = {b"later%d" % number for number in range(6 * fits)}
            script.at_once_max = 0
            crew.produce(*script.held)
            for count in range(fits, 7 * fits, fits):
                crew.until_begun(len(keys) + count)
                for offset in script.begun[-fits:]:
                    script.let_go(offset)
            crew.until_done(len(keys) + 6 * fits)
        assert script.at_once_max == fits
        assert not script.overlapped

    def test_one_that_hangs_is_replaced_and_what_it_does_late_counts_for_nothing(self) -> None:
        script = Script()
        script.held = {b"hangs"}
        with self.crew(script, workers=1, **OVERDUE_FAILS) as crew:
            crew.produce(b"hangs")
            crew.until_begun(1)
            crew.produce(b"b")
            (told,) = crew.overdue()
            stack = crew.executor.stack(told.lane)
            assert "in process" in stack
            assert self.runs_elsewhere == bool(re.match(r"  In worker process \d+:\n", stack))
            crew.executor.abandon(told.lane)
            crew.until_done(1)
            script.let_go(0)
        crew.member.tell(events.Tick())
        assert crew.member.core.state.counters.finished == 1
        assert list(crew.member.core.state.partitions[T0].tenures[0].attempts) == [0]

    def test_however_many_have_hung_those_that_come_back_go_on(self) -> None:
        script = Script()
        keys = [b"h%d" % number for number in range(4)]
        script.held = set(keys)
        with self.crew(script, workers=1, **OVERDUE_FAILS) as crew:
            for number, key in enumerate(keys[:2]):
                crew.produce(key)
                crew.until_begun(number + 1)
                for told in crew.overdue():
                    crew.executor.abandon(told.lane)
            script.let_go(0)
            script.let_go(1)
            crew.produce(b"b")
            crew.until_done(1)


class FreeContract(ParallelContract):
    """What styles promise in which any worker takes any key."""

    def test_nothing_that_is_ready_waits_behind_what_is_slow(self) -> None:
        script = Script()
        script.held = {b"slow"}
        with self.crew(script, workers=2) as crew:
            crew.produce(b"slow")
            crew.until_begun(1)
            crew.produce(b"slow", *KEYS)
            crew.until_done(len(KEYS))
            crew.member.after(1_000)
            (fact,) = crew.member.store.progress().clip(WHOLE)
            assert (fact.stable, [str(gap) for gap in fact.gaps]) == (0, ["[2-51]"])
            script.let_go(0)
            script.let_go(1)
            crew.until_done(len(KEYS) + 2)

    def test_of_a_range_that_stays_what_runs_ends_like_what_runs_of_one_that_goes(self) -> None:
        script, fits = Script(), self.records_at_once
        *low, queued = keys_in(LOW, fits + 1)
        high = keys_in(HIGH, fits)
        script.held = {*low, *high}
        with self.crew(script, workers=2) as crew:
            crew.produce(*low, *high)
            crew.until_begun(2 * fits)
            crew.produce(queued, low[0])
            crew.member.assign(HIGH)
            for offset in range(fits):
                script.let_go(offset)
            crew.until(lambda: crew.member.store.tenures()[0].record.released == (LOW,))
            for offset in range(fits, 2 * fits):
                script.let_go(offset)
            crew.until_done(2 * fits)
        assert sorted(script.begun) == list(range(2 * fits))


class TestThreads(FreeContract):
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


class WithUvloop:
    """Where uvloop is installed it is used."""

    @pytest.fixture(autouse=True)
    def with_uvloop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        uvloop, made = pytest.importorskip("uvloop"), event_loop._new_event_loop

        def noted() -> asyncio.AbstractEventLoop:
            loop = made()
            assert isinstance(loop, uvloop.Loop)
            return loop

        monkeypatch.setattr(event_loop, "_new_event_loop", noted)


class WithoutUvloop:
    """As if it was not installed."""

    @pytest.fixture(autouse=True)
    def without_uvloop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(event_loop, "_new_event_loop", asyncio.new_event_loop)


class LoopContract(FreeContract):
    """`async def process(self, record)`."""

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


class TestUvloop(WithUvloop, LoopContract):
    """On uvloop's loop."""


class TestEventLoop(WithoutUvloop, LoopContract):
    """On asyncio's own."""


class BatchContract(StyleContract):
    """What styles that process batches promise besides; a batch has at most three records here."""

    records_at_once = 3

    def crew(self, script: Script, workers: int = 1, **settings: Any) -> Crew:
        return super().crew(script, workers, batch_max_records=3, **settings)

    @pytest.mark.parametrize("how", ["returned", "named", "with errors", "raised"])
    def test_outputs_of_what_has_failed_are_dropped_and_those_of_its_company_kept(
        self, how: str
    ) -> None:
        """astubbs/parallel-consumer#257: one failure failed records that had succeeded."""
        script = Script()
        script.tells, script.sends = how, True
        script.raises = {b"b": [ValueError("once"), ValueError("alone")]}
        failures = 1 if how == "raised" else 2  # nobody knows whose the first one is
        with self.crew(script, attempt_backoff_ms=10, max_attempts=5) as crew:
            crew.executor.pause(True)
            crew.produce(b"a", b"b", b"c")
            for count in range(1, failures + 1):
                crew.until_failed(count)
                crew.member.after(60_000)
            crew.until_done(3)
            crew.member.after(1_000)
            sent = crew.sent()
        assert sorted(sent) == ["0.1", f"1.{failures + 1}", "2.1"]

    def test_a_batch_has_no_two_records_of_a_key(self) -> None:
        script = Script()
        with self.crew(script) as crew:
            crew.produce(*[b"a"] * 10, b"b", b"c", b"d", b"e")
            crew.until_done(14)
        assert max(map(len, script.batches)) == 3
        for batch in script.batches:
            assert len({record.key for record in batch}) == len(batch)

    @pytest.mark.parametrize("how", ["returned", "named", "with errors"])
    def test_those_that_are_named_have_failed_and_the_others_are_done(self, how: str) -> None:
        script = Script()
        script.raises = {b"bad": [ValueError("no route")]}
        script.tells = how
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"a", b"bad", b"c")
            crew.until_failed(1)
            crew.until_done(2)
            crew.member.after(1_000)
            ((offset, attempt),) = crew.member.store.attempts().items()
            reason = "BatchFailure: bad luck" if how == "named" else "ValueError: no route"
            assert (offset, attempt.error) == (1, reason)
        assert len(script.batches) == 1

    def test_a_batch_that_fails_as_a_whole_is_tried_one_by_one_and_that_counts_for_none(
        self,
    ) -> None:
        script = Script()
        poison = ValueError("poison")
        script.raises = {b"bad": [poison, poison]}
        script.tells = "raised"
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"a", b"bad", b"c")
            crew.until_failed(1)
            crew.until_done(2)
            crew.member.after(1_000)
            ((offset, attempt),) = crew.member.store.attempts().items()
            assert (offset, attempt.error) == (1, "ValueError: poison")
        assert sorted(map(len, script.batches)) == [1, 1, 1, 3]

    @pytest.mark.parametrize(
        ("result", "told"),
        [
            ([], "returned 0 results for 1 record:"),
            (7, "returned int for 1 record:"),
            (["done"], "returned str for a record"),
        ],
    )
    def test_a_result_that_says_nothing_of_a_record_fails_it(self, result: Any, told: str) -> None:
        script = Script()
        script.returns = lambda _: result
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"a")
            crew.until_failed(1)
            crew.member.after(1_000)
            (attempt,) = crew.member.store.attempts().values()
            assert f"TypeError: process_batch {told}" in attempt.error

    @pytest.mark.parametrize("change", ["sorted", "popped", "cleared"])
    def test_a_handler_may_change_its_list_and_name_what_failed(self, change: str) -> None:
        script = Script()
        script.raises = {b"a": [ValueError("no route")]}
        script.changes, script.tells = change, "named"
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"a", b"b", b"c")
            crew.until_failed(1)
            crew.until_done(2)
            crew.member.after(1_000)
            ((offset, attempt),) = crew.member.store.attempts().items()
        assert (offset, attempt.parked) == (0, True)
        assert sorted(script.begun) == [0, 1, 2]

    def test_results_of_a_list_that_was_sorted_name_nobody_so_each_is_tried_by_itself(self) -> None:
        script = Script()
        script.raises = {b"a": [ValueError("once"), ValueError("twice")]}
        script.changes, script.tells = "sorted", "returned"
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"a", b"b", b"c")
            crew.until_failed(1)
            crew.until_done(2)
            crew.member.after(1_000)
            ((offset, attempt),) = crew.member.store.attempts().items()
        assert (offset, attempt.error) == (0, "ValueError: twice")
        assert sorted(map(len, script.batches)) == [1, 1, 1, 3]

    def test_results_of_a_list_that_was_emptied_count_if_all_are_done(self) -> None:
        script = Script()
        script.changes = "cleared"
        script.returns = lambda _: [None, None, None]
        with self.crew(script) as crew:
            crew.produce(b"a", b"b", b"c")
            crew.until_done(3)
        assert len(script.batches) == 1

    def test_a_failure_that_names_a_record_without_an_error_is_its_error(self) -> None:
        script = Script()

        def named(records: Sequence[Record]) -> BatchResult:
            raise BatchFailure(dict.fromkeys(records, cast("BaseException", None)), "bad luck")

        script.returns = named
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"a")
            crew.until_failed(1)
            crew.member.after(1_000)
            (attempt,) = crew.member.store.attempts().values()
            assert attempt.error == "BatchFailure: bad luck"

    def test_a_failure_that_was_never_made_properly_fails_the_batch(self) -> None:
        script = Script()

        def named(_: Sequence[Record]) -> BatchResult:
            raise NamelessError

        script.returns = named
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"a")
            crew.until_failed(1)
            crew.member.after(1_000)
            (attempt,) = crew.member.store.attempts().values()
            assert attempt.error.startswith("AttributeError: 'NamelessError'")

    def test_a_stranger_that_is_named_fails_the_batch(self) -> None:
        script = Script()

        def named(records: Sequence[Record]) -> BatchResult:
            stranger = Record(records[0].tenure, 9, b"x", 0, SimMessage(0, 9, b"x"))
            raise BatchFailure([stranger])

        script.returns = named
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"a")
            crew.until_failed(1)
            crew.member.after(1_000)
            (attempt,) = crew.member.store.attempts().values()
            assert "which is not in the batch" in attempt.error

    def test_a_failure_that_names_nobody_fails_the_batch(self) -> None:
        script = Script()

        def named(_: Sequence[Record]) -> BatchResult:
            raise BatchFailure([])

        script.returns = named
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"a")
            crew.until_failed(1)
            crew.member.after(1_000)
            (attempt,) = crew.member.store.attempts().values()
            assert "BatchFailure names no record" in attempt.error


class ParallelBatchContract(BatchContract, ParallelContract):
    """The same, several batches at a time."""

    def test_of_a_batch_that_hangs_each_is_tried_by_itself_and_that_counts_for_none(self) -> None:
        script = Script()
        script.held = {b"hangs"}
        with self.crew(script, workers=1, **OVERDUE_FAILS) as crew:
            crew.produce(b"a", b"hangs", b"c")
            crew.until_begun(3)
            script.held = set()
            for told in crew.overdue():
                crew.executor.abandon(told.lane)
            crew.until_done(3)
            script.let_go(1)
        assert crew.member.core.state.counters.failures == 0
        assert sorted(map(len, script.batches)) == [1, 1, 1, 3]


class BlockingBatches(BatchContract):
    """`def process_batch(self, records)`."""

    def worker(self, script: Script) -> Worker:
        """On whichever thread."""

        class Blocking(Worker):
            def process_batch(self, records: Sequence[Record]) -> BatchResult:
                for gate in script.begin_batch(records):
                    gate.result(WAIT_S)
                return script.end_batch(changed(records, script.changes))

        return Blocking()


class TestBatchesOnThreads(BlockingBatches, ParallelBatchContract, FreeContract):
    """On threads."""


class BatchLoopContract(ParallelBatchContract, FreeContract):
    """`async def process_batch(self, records)`."""

    def worker(self, script: Script) -> Worker:
        """On an event loop."""

        class OnLoop(Worker):
            async def process_batch(self, records: Sequence[Record]) -> BatchResult:
                try:
                    for gate in script.begin_batch(records):
                        await asyncio.wait_for(asyncio.wrap_future(gate), WAIT_S)
                except asyncio.CancelledError:
                    script.end_batch(records)
                    raise
                return script.end_batch(changed(records, script.changes))

        return OnLoop()


class TestBatchesOnUvloop(WithUvloop, BatchLoopContract):
    """On uvloop's loop."""


class TestBatchesOnEventLoop(WithoutUvloop, BatchLoopContract):
    """On asyncio's own."""


class InProcesses(ParallelContract):
    """What is so of child processes only."""

    executor = "process"
    runs_elsewhere = True

    @pytest.fixture(autouse=True)
    def with_desk(self) -> Iterator[None]:
        with Desk() as self.desk:
            yield

    def test_nothing_that_is_ready_waits_behind_what_is_slow(self) -> None:
        """But for the keys of the same child: they stay with it, as what it remembers of them."""
        script = Script()
        script.held = {b"slow"}
        with self.crew(script, workers=2) as crew:
            crew.produce(b"slow")
            crew.until_begun(1)
            crew.produce(*KEYS)
            crew.until_done(len(KEYS) * 2 // 5)  # keys are shared out evenly, but for a few
            script.let_go(0)
            crew.until_done(len(KEYS) + 1)

    def test_a_child_that_dies_has_failed_at_the_record_it_was_at(self) -> None:
        script = Script()
        script.held = {b"deadly"}
        with self.crew(script, workers=1, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"deadly")
            crew.until_begun(1)
            crew.produce(b"a", b"b")
            (child,) = multiprocessing.active_children()
            pid = child.pid
            child.kill()
            crew.until_done(2)
            crew.member.after(1_000)
            ((offset, attempt),) = crew.member.store.attempts().items()
            script.let_go(0)
        assert offset == 0
        assert f"ChildDiedError: worker process {pid} was killed by signal 9" in attempt.error


class TestProcesses(InProcesses):
    """`def process(self, record)` in child processes."""

    def worker(self, script: Script) -> Worker:
        """In a child."""
        return RemoteWorker(self.desk.serving(script))


class TestBatchesInProcesses(InProcesses, ParallelBatchContract):
    """`def process_batch(self, records)` in child processes: one, so that batches get full."""

    def crew(self, script: Script, workers: int = 1, **settings: Any) -> Crew:
        return super().crew(script, workers, **settings)

    def worker(self, script: Script) -> Worker:
        """In a child."""
        return RemoteBatchWorker(self.desk.serving(script))

    def test_of_a_batch_whose_child_dies_each_is_tried_by_itself_and_that_counts_for_none(
        self,
    ) -> None:
        script = Script()
        script.held = {b"deadly"}
        with self.crew(script, on_failure="park", max_attempts=1) as crew:
            crew.produce(b"a", b"deadly", b"c")
            crew.until_begun(3)
            script.held = set()
            (child,) = multiprocessing.active_children()
            child.kill()
            crew.until_done(3)
            script.let_go(1)
        assert crew.member.core.state.counters.failures == 0
        assert sorted(map(len, script.batches)) == [1, 1, 1, 3]


class TestInline(StyleContract):
    """`def process(self, record)` on the thread that waits."""

    executor = "inline"

    def worker(self, script: Script) -> Worker:
        """On one thread, also for what else is called."""
        return OneThreadWorker(script)

    def test_everything_is_called_on_one_thread_whoever_calls(self) -> None:
        script = Script()
        with self.crew(script) as crew:
            crew.produce(b"a", b"b")
            crew.until_done(2)
            crew.style.on_ranges_assigned(T0, (WHOLE,))
            with pytest.raises(OSError, match="no disk"):
                crew.style.flush()
        worker = crew.style.worker
        assert isinstance(worker, OneThreadWorker)
        assert worker.called == ["process", "process", "on_ranges_assigned", "flush"]
        assert worker.threads == {"driver"}

    def test_ctrl_c_in_a_handler_is_a_failure_and_is_raised_again(self) -> None:
        script = Script()
        script.raises = {b"a": [KeyboardInterrupt()]}
        with self.crew(script, attempt_backoff_ms=10) as crew:
            crew.produce(b"a")
            crew.until_failed(1)
            crew.member.after(60_000)
            crew.until_done(1)
        assert crew.interrupts == 1


class OneThreadWorker(Worker):
    """Notes on which threads it is called."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.called: list[str] = []
        self.threads: set[str] = set()

    def _note(self, name: str) -> None:
        self.called.append(name)
        self.threads.add(threading.current_thread().name)

    def process(self, record: Record) -> None:
        self._note("process")
        gate = self.script.begin(record)
        try:
            if gate is not None:
                gate.result(WAIT_S)
        finally:
            self.script.end(record)

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        assert (tp, ranges) == (T0, (WHOLE,))
        self._note("on_ranges_assigned")

    def flush(self) -> None:
        self._note("flush")
        raise OSError("no disk")


class TestInlineBatches(BlockingBatches):
    """On the thread that waits."""

    executor = "inline"

    def test_a_call_of_another_method_is_no_batch(self) -> None:
        """The handler was called with an empty batch then, and the driving thread ended by it."""
        script = Script()
        with self.crew(script) as crew:
            crew.produce(b"a")
            crew.until_done(1)
            crew.style.on_ranges_assigned(T0, (WHOLE,))
            crew.produce(b"b")
            crew.until_done(2)
        assert [[it.offset for it in batch] for batch in script.batches] == [[0], [1]]
