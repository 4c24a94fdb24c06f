"""The record for which a broker refuses a batch is found in few attempts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from coop_consumer.kafka.refused_batch import RefusedBatch


class Sent:
    """An output; two with the same content are two."""

    def __eq__(self, _: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment] # nobody may look for equal ones


def pieces(batch: RefusedBatch[Sent], items: Sequence[Sent]) -> Iterable[list[Sent]]:
    """What a writer hands over at once."""
    piece: list[Sent] = []
    for item in items:
        piece.append(item)
        if batch.ends_piece(item):
            yield piece
            piece = []
    yield piece


def attempts(batch: RefusedBatch[Sent], items: Sequence[Sent], wrong: Sequence[Sent]) -> int:
    """Send until one of these is told to be wrong, in batches of 10,000; how often it took."""
    for attempt in range(1, 100):
        for piece in pieces(batch, items):
            batches = (piece[at : at + 10_000] for at in range(0, len(piece), 10_000))
            is_wrong = [it for it in batches if any(one is bad for one in it for bad in wrong)]
            if is_wrong:
                found = batch.refused(is_wrong[0])
                if found is not None:
                    assert any(found is it for it in wrong)
                    return attempt
                break
        else:
            raise AssertionError("nothing was refused")
    raise AssertionError("it is never found")


@pytest.mark.parametrize("count", [1, 2, 3, 29, 30, 31, 900, 10_000, 25_000])
def test_it_is_found_in_few_attempts_wherever_it_lies(count: int) -> None:
    items = [Sent() for _ in range(count)]
    for place in {0, 1, count // 2, count - 1} & set(range(count)):
        assert attempts(RefusedBatch(), items, [items[place]]) <= 4


def test_the_next_one_of_the_same_batch_is_found_at_once() -> None:
    items, batch = [Sent() for _ in range(900)], RefusedBatch[Sent]()
    wrong = items[400:420]
    took = []
    for _ in range(20):
        took.append(attempts(batch, items, wrong))
        found = batch.refused([wrong[0]])
        assert found is wrong[0]
        items, wrong = [it for it in items if it is not found], wrong[1:]
    assert took[0] == 3
    assert sum(took) < 40


def test_once_all_are_written_nothing_is_waited_for() -> None:
    items, batch = [Sent() for _ in range(3)], RefusedBatch[Sent]()
    batch.refused(items)
    assert all(batch.ends_piece(it) for it in items)
    batch.clear()
    assert not any(batch.ends_piece(it) for it in items)
