"""A situation is counted when it happens, and only then."""

from __future__ import annotations

from collections import Counter

import pytest

from assignors import WHOLE, AssignmentData, KeyRange, TopicPartition, Wait
from offsets import (
    LogRecord,
    ProgressStore,
    RangeProgress,
    TenureId,
    TenureKey,
    TenureRecord,
    encode_key,
    encode_value,
)
from tests.simulation.__main__ import MANY, Tally
from tests.simulation.situations import REQUIRED, is_chain, releases_anew, tells_facts, too_rare
from tests.simulation.world import Outcome

T0 = TopicPartition("t", 0)
LOW, HIGH = KeyRange(0, 9), KeyRange(10, 19)
KEY = TenureKey("g", b"id-of-t---------", 0, TenureId("a", 1, 1))


def wait_for(member: str, key_range: KeyRange) -> Wait:
    return Wait(member, 1, 1, T0, (key_range,))


def given(key_range: KeyRange, *waits: Wait) -> AssignmentData:
    return AssignmentData(ranges={T0: (key_range,)}, waits=waits)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"b": LOW}, {"c": given(LOW, wait_for("a", LOW))}, True),
        ({"a": LOW}, {"c": given(LOW, wait_for("a", LOW))}, False),
        ({"b": LOW}, {"b": given(LOW, wait_for("a", LOW))}, False),
        ({"b": HIGH}, {"c": given(LOW, wait_for("a", LOW))}, False),
        ({"b": LOW}, {"c": given(LOW)}, False),
        ({"b": LOW}, {"c": given(LOW, wait_for("a", LOW), wait_for("b", LOW))}, False),
    ],
    ids=[
        "b never began, a holds on",
        "it comes from its holder",
        "it stays where it waits",
        "b was to have another range",
        "nobody holds on",
        "b had begun",
    ],
)
def test_a_chain_passes_over_who_never_began(
    before: dict[str, KeyRange], now: dict[str, AssignmentData], *, expected: bool
) -> None:
    assert is_chain({name: {T0: (own,)} for name, own in before.items()}, now) is expected


def entries(*released: KeyRange) -> list[tuple[bytes, bytes | None]]:
    record = TenureRecord(1, -1, (RangeProgress(WHOLE, 5),), released=released)
    return [(encode_key(KEY), encode_value(record))]


def test_a_release_is_new_until_the_log_has_it() -> None:
    store = ProgressStore("g")
    assert not releases_anew(entries(), store)
    assert releases_anew(entries(LOW), store)
    store.apply(LogRecord(0, *entries(LOW)[0]))
    assert not releases_anew(entries(LOW), store)
    assert releases_anew(entries(LOW, HIGH), store)


def test_a_tombstone_tells_no_facts() -> None:
    assert tells_facts(entries())
    assert not tells_facts([(encode_key(KEY), None)])


def test_many_seeds_without_a_required_situation_prove_nothing() -> None:
    tally = Tally()
    for seed in range(MANY):
        tally.add(Outcome(seed, 200, 10, Counter(list(REQUIRED)[1:])))
        assert tally.rare == (list(REQUIRED)[:1] if seed == MANY - 1 else [])
    assert too_rare(dict.fromkeys(REQUIRED, 0.05)) == []
