"""The guarantee by which a group works, as anybody can see it from outside. Pure.

In: a group's members, its committed offsets, the guarantee that a configuration names. Out: the
guarantee at work, which says where the group's progress log is. A group may have been changed over
and back. So a progress topic of its own proves nothing while members or tags say something else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from coop_consumer.config import Guarantee
from coop_consumer.status.seen import MemberSeen
from offsets import Committed, Tag

_OF_TAGS = {
    Tag.AT_LEAST_ONCE: Guarantee.AT_LEAST_ONCE,
    Tag.EXACTLY_ONCE: Guarantee.EXACTLY_ONCE,
}


class GuaranteeAtWork(NamedTuple):
    """The guarantee of a group.

    Attributes:
        guarantee: Which.
        id_prefix: What the transactional.ids of its members begin with; None: not known.
    """

    guarantee: Guarantee
    id_prefix: str | None = None


def guarantee_at_work(
    members: Iterable[MemberSeen],
    committed: Iterable[Committed],
    named: Guarantee,
    has_own_log: Callable[[], bool],
) -> GuaranteeAtWork:
    """The guarantee of a group: by its members, else by its tags, else by its own topic.

    Args:
        members: The group's.
        committed: Its committed offsets.
        named: What the configuration of whoever asks says. It decides between as many tags of each.
        has_own_log: Asks whether the progress topic exists that only a group with exactly once has.

    >>> tagged = [Committed(7, "coop-eo:3:00000000")]
    >>> guarantee_at_work([], tagged, Guarantee.AT_LEAST_ONCE, lambda: False).guarantee.value
    'exactly_once'
    """
    contract = _contract_of(members)
    if contract:
        found = re.search(r"guarantee=exactly-once,ids=([A-Za-z0-9._-]+)", contract)
        if found is None:
            return GuaranteeAtWork(Guarantee.AT_LEAST_ONCE)
        return GuaranteeAtWork(Guarantee.EXACTLY_ONCE, found[1])
    tags = [tag for it in committed if (tag := it.tagged[0]) is not None]
    if tags:
        counts = Counter(_OF_TAGS[tag] for tag in tags)
        # A topic that the group has left keeps the tag of the guarantee before.
        return GuaranteeAtWork(max(counts, key=lambda it: (counts[it], it is named)))
    is_once = named is Guarantee.EXACTLY_ONCE or has_own_log()
    return GuaranteeAtWork(Guarantee.EXACTLY_ONCE if is_once else Guarantee.AT_LEAST_ONCE)


def _contract_of(members: Iterable[MemberSeen]) -> str:
    """The contract by which ranges are assigned; "" without members of ours.

    While a group is changed over, it has two: the one of most members counts, the smaller text on a
    tie, as for the leader. The others get nothing, and their note says so.
    """
    ours = [member for member in members if member.contract]
    served = [member for member in ours if not member.note] or ours
    counts = Counter(member.contract for member in served)
    return min(counts, key=lambda it: (-counts[it], it), default="")
