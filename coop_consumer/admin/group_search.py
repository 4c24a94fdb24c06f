"""Finds the groups of this library, again and again. One thread.

In: a configuration of any group. Out: which groups have members of this library, which had, and how
many nobody may tell. It joins no group and changes nothing.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from time import monotonic

from coop_consumer.config import Config
from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    UnexpectedAnswerError,
)
from coop_consumer.kafka.groups import EMPTY, Groups, Whose

_ASKED_AGAIN_S = 600.0
"""What an empty group has committed is read again after so long, or once it has had members. So
the offsets of thousands of groups are not read each time. They rarely change without members."""


@dataclass(frozen=True, slots=True)
class FoundGroups:
    """The groups of this library.

    Attributes:
        at_work: They have members of this library.
        empty: They have no members, and have committed offsets of this library.
        hidden: How many groups, of anybody, this user may not describe.
    """

    at_work: frozenset[str]
    empty: frozenset[str]
    hidden: int


class GroupSearch:
    """Of one cluster.

    Args:
        config: How to reach the brokers; its group is not used.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known: dict[str, tuple[Whose, float]] = {}  # of empty groups, and when asked

    def find(self) -> FoundGroups:
        """The groups of now, as far as this user may see them. Blocks; O(groups).

        A group that rebalances, or whose coordinator moves, is found by the next search. A group of
        whose topics this user may describe none shows no offsets.

        Raises:
            AuthorizationError, BrokerUnreachableError, UnexpectedAnswerError: As they say.
        """
        hidden = 0
        with closing(Groups(self._config)) as groups:
            listed, now_s = groups.listed_classic().result(), monotonic()
            found = {
                name: (whose, asked_s)
                for name, (whose, asked_s) in self._known.items()
                if listed.get(name) == EMPTY and now_s < asked_s + _ASKED_AGAIN_S
            }
            asked = {
                name: groups.whose(name, state)
                for name, state in listed.items()
                if name not in found
            }
            for name, answer in asked.items():
                try:
                    found[name] = answer.result(), now_s
                except AuthorizationError as error:
                    if error.operation == "authenticate":
                        raise
                    hidden += 1
                except (BrokerUnreachableError, UnexpectedAnswerError):
                    continue  # its coordinator moves or loads
        self._known = {name: it for name, it in found.items() if listed[name] == EMPTY}
        return FoundGroups(
            frozenset(name for name, (whose, _) in found.items() if whose is Whose.OURS),
            frozenset(name for name, (whose, _) in found.items() if whose is Whose.OURS_EMPTY),
            hidden,
        )
