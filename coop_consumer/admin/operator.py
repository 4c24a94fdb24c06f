"""Carries out what people ask for by the page, as the commands do (`coop_consumer.ops.actions`).

In: an `Asked`. Out: what would be done, or what was done. Clients are opened for each call, and
closed after it: people ask seldom. A look always comes first, so nothing is done about what is not
so any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from coop_consumer.admin.deciding import (
    OUTCOMES,
    Decision,
    count_of,
    decide_many,
    decide_one,
    in_words,
)
from coop_consumer.admin.inspect import Inspector
from coop_consumer.admin.releasing import PlannedRelease, release_all, waits_of
from coop_consumer.errors import MisuseError
from coop_consumer.ops.actions import Asked, Intent, PageAction
from coop_consumer.plain_text import command, counted, printable
from coop_consumer.status.words import key_text

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.config import Config
    from coop_consumer.status.model import RecordStatus

GROUP_ACTIONS = frozenset({PageAction.RETRY, PageAction.SKIP, PageAction.RELEASE})
"""What can be done from outside. Only a member itself can pause."""

_RETRY_RISK = (
    (
        "The handler runs again from its beginning: what earlier attempts have done outside of "
        "Kafka may be done once more."
    ),
    "If the cause is not mended, the record fails and is parked again. Its key waits meanwhile.",
)
_RETRY_ALL_RISK = (
    *_RETRY_RISK,
    (
        "It is for all records that are parked when the button is pressed, also for those that are "
        "parked after this page was made."
    ),
)
_SKIP_RISK = (
    "The record is lost to this group: it counts as done, and no handler has done it.",
    "The next record of its key runs as if this one had succeeded.",
    "It cannot be taken back.",
)
_RELEASE_RISK = (
    (
        "Another handler begins with keys whose handler may still run. If it does, the order of "
        "these keys breaks, and records run twice. Nothing is lost."
    ),
    "It is safer to end the holder's process, if you can.",
)
_RELEASE_ONCE_RISK = (
    (
        "The holder is put out of the group. What it has not committed does not count, and is "
        "done again by the next owner. No order breaks."
    ),
    "Work of its handlers outside of Kafka may be done twice.",
)
_PAUSE_RISK = (
    (
        "This member hands out nothing of the partition until somebody resumes it. It keeps its "
        "keys, so no other member does them meanwhile. What runs goes on."
    ),
    "What is left grows. What the topic's retention deletes meanwhile is lost.",
    "It is over when this process ends.",
)
_RESUME_RISK = ("Nothing. The member goes on where it was.",)


class GroupOperator:
    """Of groups, from outside.

    Args:
        config_of: The configuration of a member of a group.
        options: Words that commands need to find the groups.
    """

    def __init__(self, config_of: Callable[[str], Config], options: Iterable[str] = ()) -> None:
        self._config_of = config_of
        self._options = tuple(options)

    @property
    def allows(self) -> frozenset[PageAction]:
        """As `Operator.allows`."""
        return GROUP_ACTIONS

    def look(self, asked: Asked) -> Intent:
        """As `Operator.look`."""
        with Inspector(self._config_of(asked.group)) as inspector:
            if asked.action is PageAction.RELEASE:
                return self._release_intent(asked, self._waits(inspector, asked))
            decision = _decision(asked)
            if asked.tp is None or asked.offset is None:
                found = decide_many(inspector, _any, decision, is_trial=True)
                facts = tuple(in_words(found)) or ("No record is parked.",)
                total = sum(map(len, found.values()))
                return Intent(
                    f"Retry all parked records: {counted(total, 'record')} now?",
                    facts,
                    _RETRY_ALL_RISK,
                    "Retry all",
                    self._line(asked, "--all"),
                )
            record = decide_one(inspector, asked.tp, asked.offset, decision, is_trial=True)
        return Intent(
            f"{decision.capitalize()} {asked.tp} offset {asked.offset}?",
            tuple(_facts(record)),
            _SKIP_RISK if decision == "skip" else _RETRY_RISK,
            f"{decision.capitalize()} it",
            self._line(asked, asked.tp, asked.offset),
        )

    def carry_out(self, asked: Asked) -> str:
        """As `Operator.carry_out`."""
        with Inspector(self._config_of(asked.group)) as inspector:
            if asked.action is PageAction.RELEASE:
                waits = self._waits(inspector, asked)
                release_all(inspector, waits)
                return f"Released: {'; '.join(waits.lines)}"
            decision = _decision(asked)
            if asked.tp is None or asked.offset is None:
                found = decide_many(inspector, _any, decision)
                return f"{count_of(sum(map(len, found.values())))}: each {OUTCOMES[decision]}."
            record = decide_one(inspector, asked.tp, asked.offset, decision)
        who = (
            f"at member {record.member} on {record.host}"
            if record.member
            else "once a member owns it"
        )
        place = f"{asked.tp} offset {asked.offset} ({key_text(record)})"
        return f"{place}: {OUTCOMES[decision]}, {who}."

    def _waits(self, inspector: Inspector, asked: Asked) -> PlannedRelease:
        waits = waits_of(inspector, asked.tp, asked.holder or None)
        if not waits.found:
            holder = f" for {asked.holder}" if asked.holder else ""
            raise MisuseError(
                f"release {asked.tp}", f"nobody waits{holder} any more", "Look at the group again"
            )
        return waits

    def _release_intent(self, asked: Asked, waits: PlannedRelease) -> Intent:
        holder = ("--holder", asked.holder) if asked.holder else ()
        return Intent(
            f"Release what members wait for in {asked.tp}?",
            tuple(waits.lines),
            _RELEASE_ONCE_RISK if waits.is_once else _RELEASE_RISK,
            "Release",
            self._line(asked, asked.tp, *holder),
        )

    def _line(self, asked: Asked, *words: object) -> str:
        return command(asked.action, asked.group, *words, options=self._options)


class Pauses(Protocol):
    """A member whose partitions can be paused, as a pool and a consumer."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these partitions until `resume`."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with them."""


class MemberOperator(GroupOperator):
    """Of one group, from inside of a member, whose partitions it pauses.

    Args:
        config: The member's.
        member: The member.
    """

    def __init__(self, config: Config, member: Pauses) -> None:
        super().__init__(lambda _: config, config.command_options)
        self._group = config.group_id
        self._member = member

    @property
    def allows(self) -> frozenset[PageAction]:
        """As `Operator.allows`."""
        return frozenset(PageAction)

    def look(self, asked: Asked) -> Intent:
        """As `Operator.look`."""
        self._refuse_other_groups(asked)
        if asked.action is PageAction.PAUSE:
            return Intent(f"Pause {asked.tp} here?", (), _PAUSE_RISK, "Pause it")
        if asked.action is PageAction.RESUME:
            return Intent(f"Resume {asked.tp} here?", (), _RESUME_RISK, "Resume it")
        return super().look(asked)

    def carry_out(self, asked: Asked) -> str:
        """As `Operator.carry_out`."""
        self._refuse_other_groups(asked)
        if asked.tp is not None and asked.action is PageAction.PAUSE:
            self._member.pause([asked.tp])
            return f"{asked.tp}: paused at this member."
        if asked.tp is not None and asked.action is PageAction.RESUME:
            self._member.resume([asked.tp])
            return f"{asked.tp}: goes on at this member."
        return super().carry_out(asked)

    def _refuse_other_groups(self, asked: Asked) -> None:
        if asked.group != self._group:
            raise MisuseError(
                f"{asked.action} in group {printable(asked.group)}",
                f"this is a member of group {self._group}",
                "Ask a member of the other group, or `coop-consumer web`",
            )


def _decision(asked: Asked) -> Decision:
    return "skip" if asked.action is PageAction.SKIP else "retry"


def _any(tp: TopicPartition, record: RecordStatus) -> bool:
    del tp, record
    return True


def _facts(record: RecordStatus) -> Iterable[str]:
    yield key_text(record)
    if record.attempts:
        yield f"failed {counted(record.attempts, 'time')}: {record.error}"
    yield (
        f"at member {record.member} on {record.host}" if record.member else "no member owns its key"
    )
