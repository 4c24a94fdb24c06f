"""What a person can ask for by the page, and who carries it out. Pure.

In: an action, a group, a place. Out: an `Asked`, and what its `Operator` says of it: an `Intent`
before, a sentence after. The operators are elsewhere: they have clients of Kafka, or a member.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from assignors import TopicPartition
from coop_consumer.config.patterns import sendable
from coop_consumer.config.setting import unsendable

_PARTITION_DIGITS = 10
_OFFSET_DIGITS = 19
_NAME_CHARACTERS = 1_000


class PageAction(StrEnum):
    """What is asked for.

    RETRY, SKIP: a decision about a parked record. RELEASE: members begin that wait for another
    one's handler. PAUSE, RESUME: one member hands out nothing of a partition, or goes on with it.
    """

    RETRY = "retry"
    SKIP = "skip"
    RELEASE = "release"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person asks for.

    Attributes:
        action: The action.
        group: The group.
        tp: The partition; None: all of the group's, which `retry` alone takes.
        offset: Of a record, for `retry` and `skip`; None: all that are parked, for `retry`.
        holder: Only what this member holds, for `release`; "": any.
    """

    action: PageAction
    group: str
    tp: TopicPartition | None = None
    offset: int | None = None
    holder: str = ""

    @property
    def fields(self) -> dict[str, str]:
        """The same as fields of a form, without action and group."""
        found: dict[str, str] = {}
        if self.tp is not None:
            found |= {"topic": self.tp.topic, "partition": str(self.tp.partition)}
        if self.offset is not None:
            found["offset"] = str(self.offset)
        if self.action is PageAction.RETRY and self.tp is None:
            found["all"] = "1"
        if self.holder:
            found["holder"] = self.holder
        return found


class UnclearError(ValueError):
    """The fields of a form or an address name no action. The text says what is wrong."""


def asked_in(action: str, group: str, fields: Mapping[str, str]) -> Asked:
    """What a form, or the query of an address, asks for.

    A field that is missing never makes it more: only `all=1` means all parked records.

    Raises:
        UnclearError: It is not clear.

    >>> asked = asked_in("skip", "billing", {"topic": "orders", "partition": "3", "offset": "43"})
    >>> print(asked.action, asked.group, asked.tp, asked.offset)
    skip billing orders-3 43
    """
    if action not in set(PageAction):
        raise UnclearError(f"There is no action of this name. There are {', '.join(PageAction)}.")
    chosen = PageAction(action)
    if not group.strip() or unsendable(group):
        raise UnclearError("This is no group's name.")
    tp = _partition_in(fields)
    match chosen:
        case PageAction.RETRY | PageAction.SKIP:
            if chosen is PageAction.RETRY and fields.get("all") == "1" and tp is None:
                return Asked(chosen, group)
            offset = _number_in(fields, "offset", _OFFSET_DIGITS)
            if tp is None or offset is None:
                raise UnclearError("Name a record by topic, partition and offset.")
            return Asked(chosen, group, tp, offset)
        case PageAction.RELEASE:
            holder = fields.get("holder", "")
            if len(holder) > _NAME_CHARACTERS or unsendable(holder):
                raise UnclearError("The holder is no member's name.")
            if tp is None:
                raise UnclearError("Name a partition by topic and partition.")
            return Asked(chosen, group, tp, holder=holder)
        case PageAction.PAUSE | PageAction.RESUME:
            if tp is None:
                raise UnclearError("Name a partition by topic and partition.")
            return Asked(chosen, group, tp)


def _partition_in(fields: Mapping[str, str]) -> TopicPartition | None:
    topic, number = fields.get("topic"), _number_in(fields, "partition", _PARTITION_DIGITS)
    if topic is None and number is None:
        return None
    if topic is None or number is None or not sendable(topic):
        raise UnclearError("Name a partition by topic and partition.")
    return TopicPartition(topic, number)


def _number_in(fields: Mapping[str, str], name: str, digits_max: int) -> int | None:
    text = fields.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= digits_max):
        raise UnclearError(f"{name} is a whole number, 0 or more.")
    return int(text)


@dataclass(frozen=True, slots=True)
class Intent:
    """What would be done, for whoever has to confirm it.

    Attributes:
        title: A question.
        facts: What it is about; a line each.
        risks: What may break; sentences.
        button: What the button says.
        command: The same as a line for a shell; "": there is none.
    """

    title: str
    facts: tuple[str, ...]
    risks: tuple[str, ...]
    button: str
    command: str = ""


class Operator(Protocol):
    """Carries out what people ask for. Any thread may call; a call takes as long as it takes."""

    @property
    def allows(self) -> frozenset[PageAction]:
        """The actions that it knows."""

    def look(self, asked: Asked) -> Intent:
        """What would be done; changes nothing.

        Raises:
            CoopConsumerError: It cannot be done: the text says why, and what to do.
        """

    def carry_out(self, asked: Asked) -> str:
        """Do it; returns what was done, in a sentence.

        Raises:
            CoopConsumerError: It could not be done: the text says why, and what to do.
        """
