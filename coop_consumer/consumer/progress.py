"""The calls about progress, and about what is handed out next.

In: partitions and offsets. Out: what is committed, and where the fetch stands. Pause and seek
change which records are handed out, never which are done. Upholds I2 by what it passes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from coop_consumer.arguments import a_place, places, seconds, whole
from coop_consumer.consumer.life import ConsumerLife
from coop_consumer.core import events
from coop_consumer.owners import refuse_unknown

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.core.committed import CommittedOffset


class ConsumerProgress(ConsumerLife):
    """What a consumer has done, and where it goes on."""

    def commit(self, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Wait until everything that was done before this call is in the progress log.

        With `exactly_once` that leaves out what comes again: this member was put out of its group
        meanwhile, or a topic has refused an output. A block that waits, `transaction(wait=True)`,
        says so.

        Args:
            timeout: How long to wait, in seconds; None: until it is there.

        Returns:
            For each partition assigned here the stable offset of our ranges: the first offset in
            them that is not done. Gap ranges above it are committed too (see `committed`).

        Raises:
            TimeoutError: It is not there yet; the commit goes on in the background.
            MisuseError, CoopConsumerError: As `poll`.
        """
        timeout = seconds("commit()", timeout)
        answer = self._started("commit()").ask(events.CommitNow, timeout)
        return cast("dict[TopicPartition, int]", answer)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """What is committed in the group's name, by all its members, as the broker has it now.

        Reads the progress log to its end: O(what was written since the last call).

        Args:
            partitions: Of topics subscribed to or assigned.
            timeout: How long to wait, in seconds; None: until it is known.

        Returns:
            For each partition its stable offset with the gap ranges above; None if the group has
            never committed there.

        Raises:
            TimeoutError, MisuseError, CoopConsumerError: As `commit`.
        """
        timeout = seconds("committed()", timeout)
        running, asked = self._started("committed()"), places("committed()", partitions)
        refuse_unknown("committed()", running.member, asked)
        return running.committed(asked, timeout)

    def position(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """How far the partitions are fetched: all our records below are handed out, or wait to be.

        None where nothing is assigned here.

        Raises:
            MisuseError, CoopConsumerError: As `poll`.
        """
        asked = places("position()", partitions)
        positions = self._started("position()").snapshot().positions
        return {tp: positions.get(tp) for tp in asked}

    # ---- what is handed out --------------------------------------------------------------------

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these partitions, and fetch nothing, until `resume`.

        It holds for partitions that are not assigned, too, and over rebalances. Records that wait
        to be handed out are dropped and fetched again later, so that they take no room from other
        partitions. Records in hand stay in hand.

        Raises:
            MisuseError, CoopConsumerError: As `poll`.
        """
        named = places("pause()", partitions)
        self._started("pause()").pause(named)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with partitions that were paused; others are left as they are.

        Raises:
            MisuseError, CoopConsumerError: As `poll`.
        """
        named = places("resume()", partitions)
        self._started("resume()").resume(named)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on with every record of our ranges at or above `offset`, done before or not.

        It changes what is handed out, here and in this run. It does not change what is done:

        - *back*: records come again, in the order of their keys, though they are done. They stay
          done: the next owner of the range does not get them, nor does this one after a restart.
        - *forward*: the skipped records are not done. The stable offset stays below them, records
          done above become gap ranges, and the next owner of the range gets the skipped records. To
          drop them for good, use `coop-consumer reset`, or get them and call `done`.

        It moves only ranges held now. Other members of a shared partition go on as they were, and a
        range that comes later begins at its progress. Records in hand stay in hand, and come again
        only if they fail: to have a record again, use `failed`.

        In `on_ranges_assigned` it moves a range before its first record.

        Raises:
            MisuseError: If nothing of `tp` is held here, or `offset` is not in the partition's log
                (nor its end): there the policy for lost data would have to decide.
            CoopConsumerError: As `poll`.
        """
        a_place("seek()", tp)
        running, offset = self._started("seek()"), whole("seek()", offset, "offset")
        refuse_unknown("seek()", running.member, [tp])
        running.seek(tp, offset)
