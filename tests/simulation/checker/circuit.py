"""The circuit: while it is open, a member begins nothing but one probe, and no failure counts.

In: records that workers take, that fail, that begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.core.record import Record

if TYPE_CHECKING:
    from coop_consumer.core.tenure import Tenure
    from tests.simulation.checker.history import Execution
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World


class CircuitCheck:
    """Follows probes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._probes: dict[MemberShell, list[tuple[Record, int]]] = {}
        self._tried: dict[tuple[Tenure, int], int] = {}

    def taken(self, shell: MemberShell, record: Record, now_ms: int) -> None:
        """Check that a worker takes only the probe while the circuit is open."""
        if not shell.core.circuit.is_open:
            return
        self._world.happened("probe")
        hangs_ms = self._world.config.max_processing_ms
        opened_ms = shell.core.state.load.held_back_since_ms
        for other, since_ms in self._probes.get(shell, []):
            if since_ms < opened_ms:
                continue  # the probe that closed it the last time; a seek may bring it again
            is_over = other.offset not in other.tenure.pending or now_ms - since_ms >= hangs_ms
            assert is_over, f"circuit: {record} is begun in {shell.title} beside the probe {other}"
        let_go = shell.core.circuit._probe  # before a worker was free for it
        is_it = let_go is not None and let_go.record is record
        self._probes[shell] = [(record, let_go.since_ms if let_go and is_it else now_ms)]

    def failed(self, execution: Execution, record: Record, attempt: int) -> None:
        """Note a failed probe, which is no attempt: the next attempt has the same number."""
        shell = execution.shell
        if any(record is probe for probe, _ in self._probes.get(shell, [])):
            self._probes[shell] = []
            if shell.core.circuit.is_open:
                self._tried[record.tenure, record.offset] = attempt

    def begins(self, record: Record) -> None:
        """Check the number of an attempt that begins: a failed probe was no attempt."""
        before = self._tried.pop((record.tenure, record.offset), record.attempt)
        assert record.attempt <= before, (
            f"circuit: {record} was attempt {before}, and failed while the circuit was open"
        )
