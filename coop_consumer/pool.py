"""The worker pool: one group member whose records are processed in this process, many at a time.

In: a `Worker` class, a configuration, topics. Out: a running member that ends when told to, when it
has caught up, or when it must. It ties a worker, its style and a member together, and nothing else.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from coop_consumer import forks
from coop_consumer.arguments import places, seconds
from coop_consumer.config import Config, ExecutorName, Settings, TopicNames, chosen_topics
from coop_consumer.core.counters import Counters
from coop_consumer.core.events import CapacityChanged, Fatal, Pause, Request, Resume
from coop_consumer.errors import ConfigError, CoopConsumerError, MisuseError
from coop_consumer.executors.workplace import ChildDiedError, ChildError
from coop_consumer.kafka.membership import Seat
from coop_consumer.log_events import LogEvent
from coop_consumer.member.figures import glimpse_of, metrics_of, stack_of
from coop_consumer.member.identity import Identity
from coop_consumer.member.member import MemberRun
from coop_consumer.member.pulse import ended_health
from coop_consumer.member.runs import Runs
from coop_consumer.ops.health import Health, HealthPhase
from coop_consumer.ops.serving import OwnFeeds, PortKeeper, served
from coop_consumer.ops.telemetry import instrumented, refuse_uninstalled, spans_of
from coop_consumer.owners import Owner, owner_of
from coop_consumer.plain_text import counted
from coop_consumer.signals import (
    EndSignals,
    Latch,
    TakenSignals,
    elsewhere,
    end_process,
    in_handler,
    refuse_other_threads,
)
from coop_consumer.styles import checked_executor, refuse_useless
from coop_consumer.worker import Context, Worker, checked_outputs, worker_of
from coop_consumer.worker_side import WorkerSide

if TYPE_CHECKING:
    from assignors import KeyRange, TopicPartition
    from coop_consumer.core.glimpse import Glimpse
    from coop_consumer.core.metrics import MemberMetrics
    from coop_consumer.ops.actions import Operator
    from coop_consumer.ops.instruments import Source
    from coop_consumer.ops.server import OpsServer

log = logging.getLogger(__name__)

_LOOK_S = 1.0
"""If the kernel gives a signal to another thread, Python tells the main one once that wakes."""


class WorkerPool:
    """Runs a worker, as one member of a group: on many threads, an event loop, or in processes.

    If the progress topic is lost, a new run of the member begins by itself, under the same name and
    with the same worker and threads. Its ranges go and come, and some records come again.

    Args:
        worker: The `Worker` subclass (or an instance of it); one instance serves all records.
        config: One dict of dotted names, librdkafka's and ours, or a `Config`.
        topics: What to consume, a list of names; by default what the setting `topics` says. A name
            that begins with ^ is a pattern: topics that match it come and go while the pool runs.
        workers: How many records, or batches, are processed at a time; the member's capacity unless
            `capacity` says otherwise. By default what the setting `workers` says, else 64; of
            processes, as many as cores that may be used. `resize` changes it.
        executor: "thread", or "process" for handlers that compute: each of `workers` child
            processes has a copy of the worker, and a key belongs to one of them while that lives.
            An `async def` handler runs on an event loop of this process. "inline": all methods of
            the worker are called on the thread that starts the pool and waits for its end (`wait`,
            `run`), one record or batch after the other; for tests, and for libraries that bind
            themselves to a thread. While nobody waits, nothing is processed.
        until_caught_up: End once everything assigned is processed up to its end.
        seat: Its place in the group, if it takes that of a process that fell; `coop-consumer run`
            gives it one.
        ports: Who keeps the port of `ops.address` while its process is replaced; the same command.

    Raises:
        ConfigError: For a bad setting, or without topics.
        MisuseError: For a worker that cannot process records.

    To make one is cheap: no client is made and no broker is asked before `start`.

    Example::

        config = {"bootstrap.servers": "b:9092", "group.id": "billing"}
        with WorkerPool(Billing, config, ["orders"], workers=64) as pool:
            pool.wait()
    """

    def __init__(
        self,
        worker: type[Worker] | Worker,
        config: Settings | Mapping[str, object] | Config,
        topics: TopicNames | None = None,
        *,
        workers: int | None = None,
        executor: ExecutorName = "thread",
        until_caught_up: bool = False,
        seat: Seat | None = None,
        ports: PortKeeper | None = None,
    ) -> None:
        self._is_fork = False
        forks.watch(self)
        parsed = config if isinstance(config, Config) else Config.from_dict(config)
        executor = checked_executor(executor)
        if workers is None:
            workers = parsed.workers_on(executor)
        refuse_useless(workers, executor)
        self._parsed = parsed
        self.config = replace(parsed, capacity=parsed.capacity_for(workers))
        self.topics = parsed.topic_names if topics is None else chosen_topics(topics)
        if not self.topics:
            raise ConfigError(
                "topics",
                "is missing: there is nothing to consume",
                "Set topics in the configuration, or name them when the pool is made",
            )
        self.worker = worker_of(worker)
        parsed.refuse_circles(
            self.topics,
            keyed_state=self.worker.keyed_state,
            outputs=checked_outputs(self.worker),
        )
        self.workers = workers
        self._executor_name = executor
        self._resizing = threading.Lock()
        self._started = False
        self._at_work = False
        self._closing = False
        self._signals = EndSignals()
        self._ended = False
        self._until_caught_up = until_caught_up
        self._seat = seat
        self._ports = ports
        self._work = WorkerSide(
            self.worker, self.config, workers, executor, fail=self._fail, die=self._die
        )
        self._identity = Identity.of(self.config)
        self._runs: Runs[MemberRun] | None = None  # before the start
        self._beginning = threading.Lock()  # a close must reach the first run
        self._over: Latch | None = None
        self._ops: OpsServer | None = None
        self._shown: Source | None = None

    def shut_in_fork(self) -> None:
        """In a forked child: the member is the parent's, and so are its threads and clients."""
        self._is_fork = True

    def _fail(self, error: CoopConsumerError) -> None:
        if self._runs is not None:  # before the start nothing of the user runs
            self._runs.member.inbox.tell(Fatal(error))

    def _die(self, error: BaseException) -> None:
        if self._runs is not None:
            self._runs.member.inbox.fail(error)

    def _refuse_fork(self, call: str) -> None:
        if self._is_fork:
            raise forks.misuse(call, "this pool")

    def _make(self, *, again: bool) -> MemberRun:
        return MemberRun(
            self.config,
            self.topics,
            self._work.callbacks,
            self._identity,
            again=again,
            until_caught_up=self._until_caught_up,
            flush=self._work.flush,
            effects=self._work.effects,
            state=self._work.transacted,
            seat=self._seat,
            watch=self._work.changelog,
            outputs=checked_outputs(self.worker),
        )

    def _again(self, before: MemberRun) -> MemberRun:
        """The next run, by the same worker and threads."""
        before.wait_for_calls()
        member = self._make(again=True)
        self._work.begin_run(member)
        self._executor.serve(member.lanes, member.inbox.wake)
        member.start(self._executor)
        return member

    @property
    def name(self) -> str:
        """The member's name in the group."""
        return self._identity.name

    @property
    def counters(self) -> Counters:
        """What has happened so far, as of now."""
        return copy(self._identity.counters)

    def start(self) -> None:
        """Ask the broker, set the worker up, start all threads and join the group.

        Returns once the broker has answered, and the worker's `setup` has returned.

        Raises:
            WorkerMethodError: Its `setup` raised; nothing has joined.
            ConfigError: `ops.address` is in use, or a setting needs a package that is not
                installed; nothing was asked.
            MisuseError: If it was called before, or the pool was made before a fork.
            CoopConsumerError: Where the broker, a topic or a right is missing, or a client refuses
                a setting. Nothing has joined, and the pool may be started again.
        """
        self._refuse_fork("start()")
        if self._started:
            raise MisuseError("start()", "this pool was started before", "Make a new pool")
        refuse_uninstalled(self.config)
        style = self._work.style
        self._ops = served(
            self.config,
            self.metrics,
            self.health,
            figures_of_children=lambda: style.figures,
            operator=self._operator,
            group=self._own_group,
            ports=self._ports,
            glimpse=self._glimpse,
            stack=self._stack,
            calls=self._identity.breath,
        )
        if self._ops is not None:
            self._identity.tally.ops_address = self._ops.address
        try:
            self._begin()
        except BaseException:
            self._close_ops()
            raise

    def _operator(self) -> Operator:
        # Loaded when it is needed: it has clients that no member has.
        from coop_consumer.admin.operator import MemberOperator  # noqa: PLC0415

        return MemberOperator(self.config, self)

    def _own_group(self) -> OwnFeeds:
        from coop_consumer.admin.own_group import OwnGroup  # noqa: PLC0415

        return OwnGroup(self.config)

    def _close_ops(self) -> None:
        if self._ops is not None:
            self._ops.close()
        if self._shown is not None:
            self._shown.end()

    def _begin(self) -> None:
        member = self._make(again=False)
        self._started = True
        with self._beginning:
            self._runs = runs = Runs(self.config.group_id, member, self._again)
            self._over = Latch(runs.ended)
            is_closed = self._closing
        if is_closed:
            runs.close()
        try:
            self._work.set_up(Context(self.config, self.name, self.workers), member.matching)
        except BaseException:
            self._runs = None  # nobody waits for the end of what has not begun
            raise
        self._work.begin_run(member)
        self._shown = instrumented(self.config, self.metrics)
        self._executor = self._work.style.executor(
            member.lanes,
            member.condition,
            workers=self.workers,
            wake=member.inbox.wake,
            spans=spans_of(self.config, self.name),
        )
        self._executor.start()
        member.start(self._executor)
        self._at_work = True

    def assignment(self) -> dict[TopicPartition, tuple[KeyRange, ...]]:
        """The ranges whose records are processed here now; none before the start, and at the end.

        Ranges that still wait for another member are not in it. Any thread may call.
        """
        self._refuse_fork("assignment()")
        runs = self._runs
        if runs is None or not self._at_work:
            return {}
        member = runs.member
        answer = member.snapshot()
        awaited: list[Future[Any]] = [answer, member.ended]
        wait(awaited, return_when=FIRST_COMPLETED)
        return dict(answer.result().assignment) if answer.done() else {}

    def health(self) -> Health:
        """How the member is, for `coop_consumer.live` and `ready`. Any thread; never blocks."""
        self._refuse_fork("health()")
        runs, group = self._runs, self.config.group_id
        if runs is None or not self._at_work:
            return Health(group, self.name, HealthPhase.STARTING)
        if runs.ended.done():
            return ended_health(group, self.name, runs.ended)
        return runs.member.health()

    def owner_of(self, topic: str, key: bytes, partition: int | None = None) -> Owner | None:
        """Which member of the group processes a key, by its present assignment; from any thread.

        Args:
            topic: A topic consumed here.
            key: The key's bytes.
            partition: Where the key's records lie; None: where Kafka's own clients put them by
                default (murmur2 of the key).

        Returns:
            The owner; None while nobody has the range. Asks the broker each time.

        Raises:
            MisuseError: If it does not run; where `ordering=none`; or there is no such partition.
            CoopConsumerError: The broker could not be asked.
        """
        self._refuse_fork("owner_of()")
        runs = self._runs
        if runs is None or not self._at_work:
            raise MisuseError(
                "owner_of()", "this pool does not run", "Call owner_of between start and close"
            )
        return owner_of(self.config, runs.member, topic, key, partition)

    def metrics(self) -> MemberMetrics:
        """What the member counts, and how it stands now: typed values, made for an exporter.

        Any thread may call, at any time: before the start and after the end nothing stands, and
        what was counted is there. Counters go on over new runs of the member. docs/metrics.md has
        the same figures by their names in Prometheus.

        Raises:
            MemberSilentError: The member's thread has not answered within 5 seconds.
            MisuseError: In a forked child.
        """
        self._refuse_fork("metrics()")
        runs = self._runs if self._at_work else None
        found = metrics_of(self.config, self._identity, runs)
        changelog = self._work.changelog
        return found if changelog is None else replace(found, keyed_state=changelog.metrics())

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Process nothing more of these partitions here, and fetch nothing, until `resume`.

        It holds for partitions that are not assigned, too, and over rebalances. This member keeps
        their keys, so nobody else processes them meanwhile; other members of a shared partition go
        on with theirs. What runs goes on. What waits for a worker is dropped, and fetched again
        later. Any thread may call.

        Raises:
            MisuseError: If it does not run, or these are no partitions.
        """
        named = places("pause()", partitions)
        self._ask("pause()", partial(Pause, partitions=named))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with partitions that were paused; others are left as they are. Any thread may call.

        Raises:
            MisuseError: As `pause`.
        """
        named = places("resume()", partitions)
        self._ask("resume()", partial(Resume, partitions=named))

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """What is paused here."""
        return frozenset(self._identity.paused)

    def _ask(self, call: str, request: Callable[[int], Request]) -> None:
        self._refuse_fork(call)
        runs = self._runs
        if runs is not None and self._at_work:
            member = runs.member
            answer = member.inbox.ask(request)
            awaited: list[Future[Any]] = [answer, member.ended]
            wait(awaited, return_when=FIRST_COMPLETED)
            if answer.done():
                return
        raise MisuseError(
            call, "this pool does not run", f"Call {call[:-2]} between start and close"
        )

    def _glimpse(self) -> Glimpse:
        runs = self._runs if self._at_work else None
        return glimpse_of(self.config, self._identity, runs)

    def _stack(self, tp: TopicPartition, offset: int) -> str:
        runs = self._runs if self._at_work else None
        executor = None if runs is None else self._executor
        return stack_of(self.config, self._identity, runs, executor, (tp, offset))

    def resize(self, workers: int) -> None:
        """Process so many records, or batches, at a time from now on; from any thread.

        Nothing that runs is interrupted: of fewer workers, some end after the record that they have
        begun. The group learns the member's new capacity at the next rebalance; this call asks for
        none. It returns when additional workers are at work: child processes take a moment, and
        keys are assigned to children anew.

        Raises:
            ConfigError: For none, or more than can be of use; nothing has changed.
            MisuseError: If it does not run.
            WorkerMethodError: A new child process could not be set up; nothing has changed.
        """
        self._refuse_fork("resize()")
        refuse_useless(workers, self._executor_name)
        with self._resizing:
            runs = self._runs
            if runs is None or not self._at_work or self._closing or runs.ended.done():
                raise MisuseError(
                    "resize()", "this pool does not run", "Call resize between start and close"
                )
            config = replace(self.config, capacity=self._parsed.capacity_for(workers))
            try:
                self._executor.resize(workers)
            except (ChildError, ChildDiedError) as error:
                raise self._work.error_of("setup", error) from error
            self.workers, self.config = workers, config
            runs.member.inbox.tell(CapacityChanged(config.capacity or workers))
        group, told = config.group_id, "group %s: member %s, %s now"
        extra = LogEvent.POOL_RESIZED.extra(group=group, member=self.name)
        log.info(told, group, self.name, counted(workers, "worker"), extra=extra)

    def close(self) -> None:
        """Ask for the end: running records finish, progress is committed, the member leaves.

        Returns at once. It may be called anywhere, also in a handler of a signal. In a forked child
        it does nothing: the member belongs to the parent.
        """
        if self._is_fork:
            return
        if in_handler():
            self._closing = True
            elsewhere(self.close)
            return
        with self._beginning:
            self._closing, runs = True, self._runs
        if runs is None:
            return  # nothing has begun; what is started after all ends at once
        changelog = self._work.changelog
        if changelog is not None and self._at_work and not runs.ended.done():
            changelog.about_to_leave()
        runs.close()
        if changelog is not None:
            changelog.stop_restoring()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the member has ended. False: it has not within `timeout_s`.

        Raises:
            CoopConsumerError: What ended it, if it was not `close` or catching up; or that the
                worker's `teardown` raised.
            MisuseError: If it was not started; or the worker's own code calls, which the end waits
                for.
        """
        self._refuse_fork("wait()")
        timeout_s = seconds("wait()", timeout_s)
        runs, over = self._runs, self._over
        if runs is None or over is None:
            raise MisuseError(
                "wait()", "this pool was not started", "Call start first, or run instead"
            )
        if not over.is_open:
            if self._work.style.is_inside():
                raise MisuseError(
                    "wait()",
                    "the worker's own code calls it, and the end waits for that code",
                    "Call close() there, and wait() where the pool was started",
                )
            self._work.style.await_end(runs.ended, timeout_s)
        if not over.is_open:
            return False
        if not self._ended:
            self._ended = True
            self._executor.stop()
            try:
                self._work.tear_down()
            finally:
                self._close_ops()
        error = runs.ended.result() or self._work.error
        if error is not None:
            raise error
        return True

    def run(self) -> None:
        """Start, and wait until SIGTERM or SIGINT; a second one ends the process at once.

        The exit code is then 128 and the signal's number, as if it had not been caught. A signal
        that is ignored stays ignored (SIGINT in a background job of a shell).

        Raises:
            CoopConsumerError: What ended the member, if nobody asked for its end.
            MisuseError: On any thread but the main one, which alone gets signals.
        """
        refuse_other_threads("run()", "Call run on the main thread, or start and wait on this one")
        self._refuse_fork("run()")
        taken = TakenSignals((signal.SIGTERM, signal.SIGINT), lambda it, _: self.signalled(it))
        try:
            self.start()
            while not self.wait(_LOOK_S):
                pass
        finally:
            taken.give_back()

    def signalled(self, number: int, *, passed_on: bool = False) -> None:
        """Close, or, the second time, end the process at once. For handlers and supervisors.

        Args:
            number: The signal.
            passed_on: It came to a parent process; see `EndSignals`.
        """
        is_second = self._signals.is_second(passed_on=passed_on) and self._closing
        if is_second and self._runs is not None:
            self._give_up_seat_in_outage()
        if is_second or self._runs is None:
            end_process(number, "second" if is_second else "before the start, a")
        if not self._closing:
            # A handler may interrupt a thread that holds a lock of ours: closing happens elsewhere.
            self._closing = True
            elsewhere(self.close)

    def _give_up_seat_in_outage(self) -> None:
        """Keep a parent from trying for seconds to leave for us while no broker answers."""
        if self._seat is None or self.health().silent_s is None:
            return
        self._seat.left()
        group = self.config.group_id
        extra = LogEvent.MEMBER_NOT_LEFT.extra(group=group, member=self.name)
        log.warning(
            "group %s: member %s cannot leave, as no broker answers: its ranges wait until its "
            "session ends",
            group,
            self.name,
            extra=extra,
        )

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, _: object, error: object, __: object) -> None:
        """Close and wait; an error of the block is not hidden by one of the end."""
        self.close()
        if self._is_fork:
            return
        try:
            self.wait()
        except CoopConsumerError as own_error:
            if error is None:
                raise
            group = self.config.group_id
            extra = LogEvent.MEMBER_ENDED.extra(group=group, member=self.name, error=own_error)
            told = "group %s: the member has ended by this error. What is not committed comes again"
            log.exception(told, group, extra=extra)
