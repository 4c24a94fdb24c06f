"""What is odd about the loads that members say, for the leader to tell once. Pure.

In: the members as the plan takes them, and which of them said a load that cannot be read. Out: a
`Remark` for each oddity of a member. Such a load counts as even, or as much as it may; the plan is
made in any case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from assignors import Member
from assignors.counted import near_to_their_shares
from coop_consumer.core.actions import Level

_MUCH = 10
"""What a member says has to be this many times what counts of it. Measured loads are uneven too."""


class Remark(NamedTuple):
    """Something odd, said once as long as a member is in the group.

    Attributes:
        member: Its name.
        about: Tells one oddity of a member from another.
        level: How bad it is.
        text: In words.
    """

    member: str
    about: str
    level: Level
    text: str


def load_remarks(members: Sequence[Member], unreadable: Collection[str]) -> Iterator[Remark]:
    """What is odd about these members' loads. O(claims).

    Args:
        members: Those that get ranges, of topics that they share.
        unreadable: The names of those that said a load that could not be read.
    """
    for member in members:
        if member.id in unreadable:
            yield Remark(
                member.id,
                "unreadable",
                Level.WARNING,
                f"{member.id} says what its claims cost in bytes that are no loads of these "
                "ranges: they count as even. If it is of a newer version, upgrade the others",
            )
    said = {i: load for i, it in enumerate(members) if (load := _said(it))}
    if not said:
        return
    counts = near_to_their_shares(said, [it.capacity for it in members])
    for i, member in enumerate(members):
        if said.get(i, 0) > _MUCH * counts.get(i, 0):
            part = 100 * counts[i] // said[i]
            yield Remark(
                member.id,
                "much",
                Level.WARNING,
                f"{member.id} says that its ranges are more work than its share can be: "
                f"{part or 'less than 1'} % of that counts. Few keys are nearly all of the work, "
                "or it is wrong",
            )
        elif i not in said and member.owned and member.id not in unreadable:
            yield Remark(
                member.id,
                "none",
                Level.INFO,
                f"{member.id} does not say what its ranges cost: they count as even. It has not "
                "measured it yet, has had no records, or is of a version that does not",
            )


def _said(member: Member) -> int:
    """Picoseconds of work a second of all that a member claims."""
    return sum(one.load.weight * one.load.pace for of_tp in member.loads.values() for one in of_tp)
