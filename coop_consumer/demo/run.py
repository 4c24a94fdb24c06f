"""The whole demo, in order: set up, two rivals for a slice, the group over everything, the check.

In: options, and a console. Out: a `DemoResult`. It measures in this run everything that it prints,
and calls estimates estimates. It ends everything that it starts.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from coop_consumer.broker import EmbeddedBroker, start_detached, stop_detached
from coop_consumer.demo.aircraft import legs_in_one_thread
from coop_consumer.demo.check import Verdict, judge, read_legs
from coop_consumer.demo.crew import Crew
from coop_consumer.demo.flights import read_flights
from coop_consumer.demo.kafka import PARTITIONS, DemoBroker
from coop_consumer.demo.member import SESSION_TIMEOUT_MS
from coop_consumer.demo.pace import Pace
from coop_consumer.demo.report import ChildRole, MemberTask
from coop_consumer.demo.rivals import LANES
from coop_consumer.demo.status import status_picture
from coop_consumer.demo.topics import FlightTopics
from coop_consumer.errors import ConfigError, RetriableError
from coop_consumer.plain_text import counted

_POLL_S = 0.1
_STALLED_S = 60.0
_KEPT = "demo"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of a run.

    Attributes:
        latency_ms: How long each flight sleeps, as a stand-in for a remote call.
        records: Take the first so many flights; None is all 336,776.
        members: Processes of the cooperative group; one of them is killed.
        workers: Workers (threads) of each.
        slice_s: For how long each rival runs.
        keep: Leave the broker running afterwards.
        bootstrap: Use this broker instead of starting one. Topics and groups get unique names.

    Raises:
        ConfigError: For what cannot be run.
    """

    latency_ms: float = 1.0
    records: int | None = None
    members: int = 4
    workers: int = 16
    slice_s: float = 10.0
    keep: bool = False
    bootstrap: str | None = None

    def __post_init__(self) -> None:
        if not (isfinite(self.latency_ms) and self.latency_ms >= 0):
            raise ConfigError("latency", f"={self.latency_ms} ms is no time", "Use 0 or more")
        if self.records is not None and self.records < 1:
            raise ConfigError("records", f"={self.records} is no flight at all", "Use 1 or more")
        if self.members < 2:
            raise ConfigError(
                "members", f"={self.members}: one is killed and another must go on", "Use 2 or more"
            )
        if self.workers < 1:
            raise ConfigError("workers", f"={self.workers} processes nothing", "Use 1 or more")
        if not (isfinite(self.slice_s) and self.slice_s > 0):
            raise ConfigError("slice", f"={self.slice_s} s measures nothing", "Use more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The result of a run.

    Attributes:
        workers: Of the cooperative group, over all its members.
        partitions: Of the topic of flights.
        records: How many flights.
        seconds: From the first flight handled to the last committed, the crash included.
        plain_group_seconds_estimate: What the plain group would have taken for all, by its slice.
        lanes_seconds_estimate: What the hand-written lanes would have taken, by theirs.
        verdict: Lost, out of order, repeated.
    """

    workers: int
    partitions: int
    records: int
    seconds: float
    plain_group_seconds_estimate: float
    lanes_seconds_estimate: float
    verdict: Verdict

    @property
    def speedup(self) -> float:
        """How many times faster than the plain group."""
        return self.plain_group_seconds_estimate / self.seconds

    @property
    def ok(self) -> bool:
        """Whether the result equals the computation in one thread."""
        return self.verdict.right

    def as_json(self) -> dict[str, int | float]:
        """The figures as `--json` prints them."""
        return {
            "workers": self.workers,
            "partitions": self.partitions,
            "records": self.records,
            "seconds": round(self.seconds, 2),
            "plain_group_seconds_estimate": round(self.plain_group_seconds_estimate, 1),
            "speedup": round(self.speedup, 2),
            "lost": self.verdict.lost,
            "out_of_order": self.verdict.out_of_order,
            "repeated": self.verdict.repeated,
        }


@dataclass(eq=False)
class DemoStalledError(RetriableError):
    """Nothing has moved for a minute."""

    what: str
    committed: int
    records: int

    def __str__(self) -> str:
        return (
            f"demo: {self.what}: no progress for {_STALLED_S:.0f} s, {self.committed} of "
            f"{self.records} flights committed. All processes were ended. Run it again with --keep "
            "and look at the group with coop-consumer status."
        )


def run_demo(options: DemoOptions, console: Console) -> DemoResult:
    """Run the demo and show its progress on `console`; about 2 minutes for all flights.

    Raises:
        CoopConsumerError: Data, broker or Java is missing.
        MemberFailedError: A process ended by itself.
        DemoStalledError: Nothing moved any more.
    """
    with _bootstrap(options) as bootstrap:
        return _Demo(options, console, DemoBroker(bootstrap)).run()


@contextmanager
def _bootstrap(options: DemoOptions) -> Iterator[str]:
    """The address of the broker to use; a broker of ours is gone after an error, even if kept."""
    if options.bootstrap is not None:
        yield options.bootstrap
    elif not options.keep:
        with EmbeddedBroker() as broker:
            yield broker.bootstrap_servers
    else:
        kept = start_detached(_KEPT)
        try:
            yield kept.bootstrap_servers
        except BaseException:
            stop_detached(_KEPT)
            raise


class _Demo:
    """One run: what its parts share."""

    def __init__(self, options: DemoOptions, console: Console, broker: DemoBroker) -> None:
        self._options = options
        self._console = console
        self._broker = broker
        # On a broker that others use too, names must not meet theirs.
        self._suffix = "" if options.bootstrap is None else f"-{secrets.token_hex(4)}"
        self._say = console.print

    def run(self) -> DemoResult:
        options = self._options
        with self._timed("read, computed in one thread, produced"):
            flights = read_flights(options.records)
            expected = legs_in_one_thread(flights)
            self._broker.create_flights(self._name("flights"))
            self._broker.produce(self._name("flights"), flights)
        self._print_introduction(len(flights), len({f.tail for f in flights if f.tail is not None}))
        plain_s = self._rival("plain group, 3 processes", ChildRole.PLAIN, PARTITIONS, len(flights))
        lanes_s = self._rival(f"by hand, {LANES} lanes", ChildRole.LANES, 1, len(flights))
        seconds, skipped = self._run_group(len(flights))
        with self._timed("compared with the computation in one thread"):
            found = judge(
                read_legs(self._broker.clients, self._topics("cooperative").legs), expected
            )
        result = DemoResult(
            workers=options.members * options.workers,
            partitions=PARTITIONS,
            records=len(flights),
            seconds=seconds,
            plain_group_seconds_estimate=plain_s,
            lanes_seconds_estimate=lanes_s,
            verdict=Verdict(found.lost, found.out_of_order, found.repeated + skipped),
        )
        self._print_result(result)
        return result

    # ---- names ---------------------------------------------------------------------------------

    def _name(self, name: str) -> str:
        return name + self._suffix

    def _topics(self, run: str) -> FlightTopics:
        return FlightTopics(self._name("flights"), self._name(f"{run}.legs"))

    def _tasks(self, role: ChildRole, processes: int) -> list[MemberTask]:
        """Each process's task in a run, with a new topic for its legs."""
        topics = self._topics(role)
        self._broker.create_legs(topics.legs)
        task = MemberTask(
            role=role,
            bootstrap=self._broker.bootstrap,
            group=self._name(role),
            topics=topics,
            latency_ms=self._options.latency_ms,
            workers=self._options.workers,
        )
        return [task] * processes

    # ---- the rivals ----------------------------------------------------------------------------

    def _rival(self, title: str, role: ChildRole, processes: int, records: int) -> float:
        """Run a rival for a slice; returns how long it would take for all flights, in seconds.

        The slice begins when every process has handled a flight, so that joining does not count.
        """
        slice_s, begin, now = self._options.slice_s, Pace(), Pace()
        with (
            Crew(self._tasks(role, processes)) as crew,
            _bar(self._console, title, slice_s) as show,
        ):
            stall = _Stall(title)
            while now.since(begin).seconds < slice_s and now.handled < records:
                time.sleep(_POLL_S)
                reports = crew.reports()
                now = Pace.of(reports)
                if not begin.handled and all(report.handled for report in reports):
                    begin = now
                stall.check(now.handled, 0, records)
                show(now.since(begin).seconds, str(now.since(begin)))
            now = Pace.of(crew.finish())
        measured = now.since(begin)
        estimate_s = records / measured.a_second
        self._say(
            f"  {measured.handled:,} flights in {measured.seconds:.1f} s, "
            f"{measured.a_second:,.0f} a second; an estimate for all {records:,}: "
            f"[bold]{estimate_s:.0f} s[/]"
        )
        return estimate_s

    # ---- the cooperative group -----------------------------------------------------------------

    def _run_group(self, records: int) -> tuple[float, int]:
        """Run the group over everything; returns its seconds, and the repeats it skipped."""
        options = self._options
        group, topic = self._name(ChildRole.COOPERATIVE), self._name("flights")
        title = (
            f"cooperative, {counted(options.members, 'process', 'processes')} of "
            f"{counted(options.workers, 'worker')}"
        )
        tasks = self._tasks(ChildRole.COOPERATIVE, options.members)
        with (
            self._broker.committed(group, topic) as count_committed,
            Crew(tasks) as crew,
            _bar(self._console, title, records) as show,
        ):
            stall, killed, committed, now = _Stall(title), False, 0, Pace()
            while committed < records:
                time.sleep(_POLL_S)
                now = Pace.of(crew.reports())
                committed = count_committed()
                stall.check(now.handled + committed, committed, records)
                show(now.handled, str(now.since(Pace())))
                if not killed and now.handled >= records / 2:
                    self._kill_one(crew, group, now.handled)
                    killed = True
            seconds = time.time() - now.first_s
            self._say(status_picture(self._broker.clients, group))
            skipped = sum(report.skipped for report in crew.finish())
        self._say(
            f"  {records:,} flights in [bold]{seconds:.1f} s[/], {records / seconds:,.0f} a second"
        )
        return seconds, skipped

    def _kill_one(self, crew: Crew, group: str, handled: int) -> None:
        """Kill first, then draw: the picture takes half a second, and the others are quick."""
        pid = crew.kill(0)
        self._say(f"  after {handled:,} flights: kill -9 {pid}. The group does not know yet:")
        self._say(status_picture(self._broker.clients, group))
        self._say(
            f"  The dead process' keys stand still until its session times out "
            f"(session.timeout.ms={SESSION_TIMEOUT_MS}); all others go on."
        )

    # ---- what is said --------------------------------------------------------------------------

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self._say(f"  {what}: {time.monotonic() - started:.1f} s")

    def _print_introduction(self, flights: int, aircraft: int) -> None:
        options = self._options
        self._say(
            f"[bold]{flights:,} flights of {aircraft:,} aircraft in {PARTITIONS} partitions.[/] "
            f"For each: a sleep of {options.latency_ms:g} ms that stands in for a remote call, the "
            "aircraft's previous leg, turnaround, inherited delay."
        )

    def _print_result(self, result: DemoResult) -> None:
        lanes = result.lanes_seconds_estimate / result.seconds
        verdict = result.verdict
        self._say(
            f"[bold]{result.speedup:.1f} times as fast as the plain group[/] (estimate), "
            f"{lanes:.1f} times as fast as the lanes by hand (estimate), with one of "
            f"{counted(self._options.members, 'process', 'processes')} killed. The lanes are one "
            "process, and no other could take over their aircraft."
        )
        style = "green" if result.ok else "red"
        self._say(
            f"[{style}]Lost {verdict.lost}, out of order or wrong {verdict.out_of_order}, "
            f"repeated after the kill {verdict.repeated}.[/]"
        )
        if self._options.keep:
            self._say(
                f"The broker runs on at {self._broker.bootstrap}; end it with: "
                f"coop-consumer broker stop --name {_KEPT}"
            )


class _Stall:
    """Notices when nothing moves any more."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._mark = -1
        self._moved_s = time.monotonic()

    def check(self, mark: int, committed: int, records: int) -> None:
        now_s = time.monotonic()
        if mark != self._mark:
            self._mark, self._moved_s = mark, now_s
        elif now_s - self._moved_s > _STALLED_S:
            raise DemoStalledError(self._what, committed, records)


@contextmanager
def _bar(console: Console, title: str, total: float) -> Iterator[Callable[[float, str], None]]:
    """A line with a bar; call what it yields with how much is done, and a text."""
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(title, total=total, text="starting")

        def show(done: float, text: str) -> None:
            progress.update(task, completed=min(done, total), text=text)

        yield show
