"""`OffsetChangelog`: a large state whose changes carry the offset of their input.

In: the inputs of a partition, in order; changes of a state; outputs for any topics. Out: state and
outputs that count each input once, whatever is killed. A restore reads the changelog, and gives the
state and the input's offset to go on at. No commit is needed.

Changes are values (the default), or operations that `apply` knows. The same `apply` runs in the
restore and at work. It has to be deterministic: no clock, no chance, nothing but its arguments.
Else a restored state is another one.

Rights: Read on the input, Read and Write on the changelog, Write on the outputs, Write on the
transactional.id `name`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, Self, cast, overload

from assignors import TopicPartition
from coop_consumer.arguments import a_function
from coop_consumer.config import Settings
from coop_consumer.errors import LogConflictError, MisuseError
from coop_consumer.kafka.log_end import log_end
from coop_consumer.kafka.own_topics import what_deletes
from coop_consumer.patterns.any_output import WithOutputs
from coop_consumer.patterns.folding import (
    POSITION,
    Apply,
    ChangeRecord,
    Folded,
    State,
    checked_key,
    checked_value,
    fold,
    set_value,
)
from coop_consumer.patterns.messages import headers_in
from coop_consumer.patterns.reading import slices
from coop_consumer.patterns.single_writer import checked_number
from coop_consumer.patterns.stamp import Stamp
from offsets import OffsetRange

_AGAIN = "Start again, to learn whether a state can still be restored"


class OffsetChangelog(WithOutputs, Generic[State]):
    """The only owner of a state, restored from its changelog.

    Args:
        config: One dict of dotted names, as for a consumer, without group.id.
        source: The partition to read.
        changelog: The partition of the changes; nobody else writes it. With values it may be
            compacted. Nothing else may remove its records.
        name: The transactional.id: one for each changelog.
        initial: Makes the state before the first change.
        apply: Applies a change (state, key, value) to the state; by default the value is the key's
            new value, and None deletes the key.

    Attributes:
        state: As of `offset`.
        offset: The input's offset to go on at.

    Raises:
        LogConflictError: A record of the changelog is a stranger's, or its beginning is gone.
        InputGoneError: The input does not have `offset` any more.
        ConfigError, MisuseError: A setting or an argument cannot be.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.

    Example::

        with OffsetChangelog(config, views_0, changes_0, "counter-0") as changelog:
            for message in committed_records(config, views_0, changelog.offset):
                count = int(changelog.state.get(message.key(), 0)) + 1
                with changelog.transaction(message.offset()):
                    changelog.change(message.key(), b"%d" % count)
    """

    @overload
    def __init__(
        self: OffsetChangelog[dict[bytes, bytes]],
        config: Settings | Mapping[str, object],
        source: TopicPartition,
        changelog: TopicPartition,
        name: str,
    ) -> None: ...

    @overload
    def __init__(
        self,
        config: Settings | Mapping[str, object],
        source: TopicPartition,
        changelog: TopicPartition,
        name: str,
        *,
        initial: Callable[[], State],
        apply: Apply[State],
    ) -> None: ...

    def __init__(
        self,
        config: Settings | Mapping[str, object],
        source: TopicPartition,
        changelog: TopicPartition,
        name: str,
        *,
        initial: Callable[[], State] = cast("Callable[[], State]", dict),  # noqa: B008 - no call
        apply: Apply[State] = cast("Apply[State]", set_value),  # noqa: B008 - no call
    ) -> None:
        a_function(f"OffsetChangelog {name}", initial, "function initial")
        a_function(f"OffsetChangelog {name}", apply, "function apply")
        self._source, self._changelog = source, changelog
        self._apply = apply
        super().__init__(config, name, read=(source,), written=(changelog,))
        try:
            self.state, self.offset = self._restored(Folded(initial()))
        except BaseException:
            self.close()
            raise

    def _check_settings(self, place: TopicPartition, settings: Mapping[str, str]) -> None:
        """See that the changelog keeps all that a restore needs; trust it if nothing is told.

        Raises:
            MisuseError: It does not.
        """
        name, policy = place.topic, settings.get("cleanup.policy", "")
        problem = remedy = ""
        if "compact" in policy and not self._has_values():
            problem = f"{name} is compacted, and keeps only the last operation of a key"
            remedy = f"Set cleanup.policy=delete on {name}, with retention.ms=-1"
        elif deletes := what_deletes(settings):
            problem = f"{name} has {deletes}, and would lose old changes"
            remedy = f"Set retention.ms=-1 and retention.bytes=-1 on {name}"
            if self._has_values():
                remedy = f"Set cleanup.policy=compact on {name}"
        if problem:
            raise MisuseError(f"OffsetChangelog {self.name}", problem, remedy)

    def _has_values(self) -> bool:
        return self._apply is cast("Apply[State]", set_value)

    def _restored(self, folded: Folded[State]) -> tuple[State, int]:
        place = self._changelog
        end = log_end(self._config, self._topics, place, self.name)
        if end.low > 0:
            raise LogConflictError(
                self.name,
                str(place),
                f"it begins at offset {end.low}, so its first changes are gone, and no state can "
                "be restored",
                "To begin anew, give the writer a new name= and a new changelog",
            )
        last = -1 if end.last is None else end.last.offset() or 0
        if last >= 0:
            found = OffsetRange(0, last)
            for messages, _ in slices(
                self.name, self._config, self._topics, place, found, remedy=_AGAIN
            ):
                fold(folded, self._apply, self.name, map(self._change_record, messages))
        if folded.next_offset is None:
            return folded.state, self._begin_of(self._source)
        if folded.source_id != self._id_of(self._source):
            raise LogConflictError(
                self.name,
                str(place),
                f"its changes came of another topic than {self._source.topic} is now (id "
                f"{folded.source_id}): that one was deleted and made again",
                "Give the writer a new name= and a new changelog, to begin anew",
            )
        return folded.state, self._within(self._source, folded.next_offset)

    def _change_record(self, message: Any) -> ChangeRecord:
        place = f"{self._changelog} offset {message.offset()}"
        try:
            headers = headers_in(message)
        except ValueError:  # a stranger's, for sure
            headers = []
        return ChangeRecord(place, message.key(), message.value(), headers)

    @contextmanager
    def transaction(self, last: int) -> Iterator[Self]:
        """The changes and outputs of inputs: visible at the end of the block, together.

        Args:
            last: The offset of the last of these inputs; the next one is the next to process.

        Raises:
            MisuseError: The offset lies below an earlier one, or above the input's last one, or a
                transaction before it has failed.
            PublisherFencedError: Another one of this name has begun; nothing of it is visible.
            CoopConsumerError: Kafka refuses; a new object restores what was committed.
        """
        last = checked_number(f"{self.name}: transaction()", last, "offset")
        if last < self.offset:
            raise MisuseError(
                f"{self.name}: transaction()",
                f"offset {last} lies below {self.offset}, so its changes are there already",
                f"Go on at offset {self.offset}",
            )
        self._check_next("transaction()", self._source, last + 1)
        with self._transaction():
            self._last = last
            yield self
            self._append(POSITION, self._id_of(self._source).encode())
        self.offset = last + 1

    def change(self, key: bytes, value: bytes | None) -> None:
        """Change the state, and add the change to the transaction.

        Raises:
            MisuseError: No transaction is open, or no change can have this key or value.
            CoopConsumerError: This change or one before it is refused.
            BaseException: What `apply` raises; the transaction is void then.
        """
        self._append(checked_key(self.name, key), checked_value(self.name, value))
        try:
            self._apply(self.state, key, value)
        except BaseException as error:
            # Each restore would raise it again.
            self._void = MisuseError(
                f"{self.name}: change()",
                f"apply raised {type(error).__name__}: {error}",
                "Check a change before it is made, and let apply take it; make a new "
                "OffsetChangelog, which restores what was committed",
                "The transaction is void",
            )
            raise

    def _append(self, key: bytes, value: bytes | None) -> None:
        self._check_open("change()")
        stamp = Stamp(self.name, self._last)
        partition = self._changelog.partition
        topic = self._changelog.topic
        self._write("change()", topic, value, key, (), stamp=stamp, partition=partition)
