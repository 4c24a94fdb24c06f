"""What a member says while no broker answers: what it means, seldom, and when it is over."""

from __future__ import annotations

from datetime import datetime

import pytest

from coop_consumer.member.outage import Outage


class Brokers:
    """An outage with its clock, and what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.now_s = 1_000.0
        self.answered_s: float | None = None
        self.outage = Outage(
            lambda _level, _event, text, /, **_facts: self.said.append(text),
            heartbeat_s=0.5,
            join_s=15.0,
            doctor="coop-consumer doctor --group billing --bootstrap b:9092",
            clock=lambda: datetime.fromtimestamp(self.now_s),  # noqa: DTZ006 - for people
        )

    def run(self, seconds: float, *, answer: bool, joining: bool = False) -> list[str]:
        """What is said in so many seconds."""
        before, end_s = len(self.said), self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += 0.1
            if answer:
                self.answered_s = self.now_s
            self.outage.step(self.now_s, self.answered_s, joining=joining)
        return self.said[before:]


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


def test_an_outage_is_told_once_a_minute_and_its_end_once(brokers: Brokers) -> None:
    assert brokers.run(60, answer=True) == []
    since = datetime.fromtimestamp(brokers.now_s)  # noqa: DTZ006 - for people
    told = brokers.run(125, answer=False)
    assert len(told) == 3
    for line in told:
        assert line.startswith(f"no broker answers since {since:%H:%M:%S}, for ")
        assert "handlers go on" in line
        assert "nothing is lost" in line
        assert "`coop-consumer doctor --group billing --bootstrap b:9092`" in line
    assert brokers.run(60, answer=True) == ["a broker answers again, after 125 s"]
    assert len(brokers.run(10, answer=False)) == 1, "the next one is told anew"


def test_it_is_told_before_the_lines_of_clients(brokers: Brokers) -> None:
    brokers.run(1, answer=True)
    assert brokers.run(1.5, answer=False) == []
    assert len(brokers.run(1, answer=False)) == 1, "theirs wait for three seconds"


def test_a_join_that_waits_for_others_is_no_outage(brokers: Brokers) -> None:
    brokers.run(1, answer=True)
    assert brokers.run(15, answer=False, joining=True) == []
    assert len(brokers.run(3, answer=False, joining=True)) == 1


def test_who_has_never_been_answered_leaves_it_to_the_start(brokers: Brokers) -> None:
    assert brokers.run(60, answer=False) == []
