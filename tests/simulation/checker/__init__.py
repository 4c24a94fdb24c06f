"""The checker: sees everything, and raises `AssertionError` with the invariant that is broken.

In: every record of the progress log as it is appended, every start and end of a handler, every
plan, every commit, and each member after each step that touched it. Each module is one family of
invariants; all of them share the truth. The checker folds the log at once and completely. So it
knows the whole log while members still read a prefix. A finished record counts for the epoch of its
tenure: a rewind begins anew. If handlers buffer their output, a finished record counts as processed
once it is flushed. Until then it is lost with its process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.checker.answers import AnswerCheck
from tests.simulation.checker.attempts import AttemptCheck
from tests.simulation.checker.buffers import BufferCheck
from tests.simulation.checker.circuit import CircuitCheck
from tests.simulation.checker.handlers import HandlerCheck
from tests.simulation.checker.loads import LoadCheck
from tests.simulation.checker.members import MemberCheck
from tests.simulation.checker.outputs import OutputCheck
from tests.simulation.checker.plans import PlanCheck
from tests.simulation.checker.progress import ProgressCheck
from tests.simulation.checker.states import StateCheck
from tests.simulation.checker.truth import Truth

if TYPE_CHECKING:
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World


class Checker:
    """Checks I1 to I6, I8 and I10, and the answers of members.

    Attributes:
        truth: What truly happened.
        progress: I2, I3, I10: the log and the committed offsets.
        plans: I1, I6: who gets what.
        members: I1, I8, I10: what a member holds.
        handlers: I4, I5: what begins, and in what order.
        attempts: How often a record may be tried.
        circuit: What begins while the circuit is open.
        buffers: I2: output that is not durable.
        outputs: I9: what transactions make visible.
        states: I9: keyed state.
        answers: What members answer their users.
        loads: What members tell of their work.
    """

    def __init__(self, world: World) -> None:
        self.truth = Truth(world)
        self.attempts = AttemptCheck(world, self.truth)
        self.circuit = CircuitCheck(world)
        self.progress = ProgressCheck(world, self.truth, self.attempts)
        self.plans = PlanCheck(world)
        self.members = MemberCheck(world, self.truth)
        self.states = StateCheck(world, self.truth)
        self.handlers = HandlerCheck(world, self.truth, self.attempts, self.circuit, self.states)
        self.buffers = BufferCheck(world, self.truth)
        self.outputs = OutputCheck(self.truth, self.attempts)
        self.answers = AnswerCheck(world, self.truth)
        self.loads = LoadCheck(world)

    def crashed(self, shell: MemberShell) -> None:
        """Note that a member has crashed with its handlers."""
        self.truth.disturb()
        self.attempts.crashed(shell)
        self.handlers.crashed(shell)
        self.buffers.gone(shell)
