"""Bugs that members can be given, to show that a judge would notice.

In: a name. Out: what plants the bug. The simulation's are here by their names; two that show only
in transactions have names of their own, because a real Producer needs one more change.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition as Place

from coop_consumer.core.actions import Commit
from coop_consumer.core.transaction import Said
from coop_consumer.kafka.group_metadata import encoded
from coop_consumer.kafka.transaction_client import TransactionClient
from coop_consumer.member.hands import Hands
from tests.simulation import mutants

Plant = Callable[[pytest.MonkeyPatch], None]


def progress_after_fence(patch: pytest.MonkeyPatch) -> None:
    """The generation is checked before progress is produced: so its offsets are not known yet.

    Nobody fences a member that is gone: safety does not rest on that, and it would hide this bug.
    """

    def fence_entry(client: TransactionClient, action: Commit) -> Said:
        at = [Place(client._topic, next(iter(action.appends)), 1)]
        member = encoded(client._group, action.metadata)
        return client._said(
            lambda: client._at_work.send_offsets_to_transaction(at, member, client.call_s)
        )

    mutants.named("progress_behind_the_fence").plant(patch)
    patch.setattr(TransactionClient, "fence_entry", fence_entry)
    patch.setattr(Hands, "fence", lambda *_: None)


OWN: dict[str, Plant] = {
    "progress-after-fence": progress_after_fence,
    "doubt-is-abort": mutants.named("doubt_is_an_abort").plant,
}


def named(name: str) -> Plant:
    """What plants the bug of this name.

    Raises:
        ModuleNotFoundError: There is none.
    """
    return OWN.get(name) or mutants.named(name).plant
