"""At their bound outputs wait until a commit has ended, and no record is begun meanwhile."""

from __future__ import annotations

from assignors import WHOLE
from coop_consumer.core import actions, effects
from tests.unit.core_member import TableMember
from tests.unit.test_core_effects import Left, running

KEYS = [b"key-%d" % number for number in range(12)]


class Sent(Left):
    """An output."""

    size = 1_000


def crowded(outputs: int = 4, **settings: object) -> TableMember:
    """A member whose brokers are away, and whose handlers send a record each."""
    member = TableMember(output_max_records=4, commit_interval_ms=60_000, **settings)
    member.assign(WHOLE)
    member.produce(*KEYS)
    member.after(1_000)
    member.kept_back = {actions.Commit}
    for _ in range(outputs):
        send(member, member._begin(member.core.lanes.begin()))
    return member


def send(member: TableMember, offset: int) -> None:
    assert effects.file(running(member, offset), Sent(offset))
    member.finish(offset)


def test_from_half_of_the_bound_on_a_commit_is_due() -> None:
    assert not crowded(outputs=1).unanswered
    assert len(crowded(outputs=2).unanswered) == 1


def test_at_the_bound_nothing_is_begun_until_a_commit_has_ended() -> None:
    member = crowded()
    for _ in range(5):
        member.after(1_000)
        assert member.start() == []
    member.let_go()
    member.after(1_000)
    assert len(member.start()) == 8


def test_what_runs_by_then_ends_and_its_lane_waits() -> None:
    member = crowded(outputs=0)
    member.produce(KEYS[0], KEYS[0])
    member.after(1_000)
    for offset in member.start()[:4]:
        send(member, offset)
    assert member.core.lanes.is_over(0), "a turn is over at once"
    assert member.core.output_bound.holds


def test_bytes_are_bounded_as_well() -> None:
    member = crowded(outputs=0, output_max_bytes=1 << 20)
    offset = member._begin(member.core.lanes.begin())
    large = Sent("large")
    large.size = 1 << 20
    assert effects.file(running(member, offset), large)
    member.finish(offset)
    assert member.core.output_bound.holds


def test_outputs_that_wait_are_counted_until_their_commit_has_ended() -> None:
    member = crowded(outputs=3)
    counters = member.core.state.counters
    member.after(1_000)
    assert (counters.outputs_waiting, counters.output_bytes_waiting) == (3, 3_000)
    member.let_go()
    member.after(1_000)
    assert (counters.outputs_waiting, counters.output_bytes_waiting) == (0, 0)


def test_an_open_circuit_begins_no_probe_at_the_bound() -> None:
    member = crowded(outputs=0, circuit_keys=2, circuit_open_ms=1_000)
    running_now = [member._begin(member.core.lanes.begin()) for _ in range(6)]
    for offset in running_now[:4]:
        assert effects.file(running(member, offset), Sent(offset))
    member.fail(*running_now[4:])
    assert member.core.circuit.is_open
    for offset in running_now[:4]:
        member.finish(offset)
    assert member.core.output_bound.holds
    member.after(5_000)
    assert member.start() == []
    member.let_go()
    assert not member.core.output_bound.holds
    member.after(1_000)
    assert len(member.start()) == 1, "the probe"


def test_a_line_says_why_nothing_is_begun_for_long() -> None:
    member = crowded()
    member.after(9_000)
    assert not lines(member)
    member.after(1_000)
    member.after(1_000)
    (line,) = lines(member)
    assert "no record is begun: 4 outputs of 4,000 bytes wait" in line
    assert "output.max.records=4" in line


def lines(member: TableMember) -> list[str]:
    return [it.text for it in member.told(actions.LogLine) if "no record is begun" in it.text]
