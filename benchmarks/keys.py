"""Which key each record has. Pure.

In: how many records, how many keys, how they are spread. Out: a key a record, the same each time.
Never all keys distinct: where every record has a key of its own, the order by key costs nothing and
nothing is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from random import Random

SPECIAL = "special"
"""The one key of a case that is hot, or slow."""

_STRIDE = 7_919
"""Keys recur evenly, in an order that is not that of their hashes."""
_DRAWN = 10_000


def even_keys(records: int, keys: int) -> Iterator[str]:
    """Every key as often as any other, give or take one.

    >>> sorted(even_keys(4, 2))
    ['key-0', 'key-0', 'key-1', 'key-1']
    """
    return (f"key-{number * _STRIDE % keys}" for number in range(records))


def zipf_keys(records: int, keys: int, seed: int = 1) -> Iterator[str]:
    """The n-th key comes 1/n as often as the first one; of 100,000 keys that has one in twelve."""
    rng = Random(seed)
    weights = list(accumulate(1 / rank for rank in range(1, keys + 1)))
    for begun in range(0, records, _DRAWN):
        count = min(_DRAWN, records - begun)
        yield from (f"key-{n}" for n in rng.choices(range(keys), cum_weights=weights, k=count))


def with_special(keys: Iterator[str], records: int, special: int) -> Iterator[str]:
    """The same, with `special` records of one more key at even distances, the first one first.

    >>> list(with_special(iter("abcdef"), 6, 2))
    ['special', 'b', 'c', 'special', 'e', 'f']
    """
    if not special:
        yield from keys
        return
    every = records // special
    for number, key in enumerate(keys):
        yield SPECIAL if number % every == 0 and number < every * special else key
