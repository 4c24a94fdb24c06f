"""Outputs: what handlers send, checked where they can still choose another topic or size. Pure.

In: calls of `send`, on any thread. Out: outputs, filed with their records. The topics are looked up
at the start. So a topic that was not declared, a partition that does not exist, a size that the
topic refuses, or a missing key is an error of the call, not of the broker later.

In a child process records are copies. What is sent there is kept by record until the record has
ended, and goes to the parent before the parent counts the record as done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coop_consumer.core import effects
from coop_consumer.core.effects import Effect, Filed, Output
from coop_consumer.core.record import Record, place_of
from coop_consumer.errors import MisuseError, RecordTooLargeError

CALL = "send()"

FRAME_BYTES = 100
"""More than a batch and a record take besides key, value and headers."""
_HEADER_FRAME_BYTES = 10
_LATEST_MS = 2**63 - 1
"""A later time is no error of the broker: the Producer raises, and the member would end."""

Text = bytes | str | None
SentHeaders = Iterable[tuple[str, Text]]
NO_HEADERS: SentHeaders = ()


class OutputTopic(NamedTuple):
    """A declared topic, as it was at the start.

    Attributes:
        partitions: Their number.
        record_max_bytes: The largest record that it takes.
        is_compacted: Whether each record needs a key.
    """

    partitions: int
    record_max_bytes: int
    is_compacted: bool


@dataclass(slots=True, eq=False)
class OpenRecords:
    """The records that a child process is at, and what their handlers have sent."""

    _sent: dict[Record, Filed] = field(default_factory=dict)

    def begin(self, records: Iterable[Record]) -> None:
        """Their handler is about to be called."""
        for record in records:
            self._sent[record] = Filed.empty()

    def file(self, record: Record, output: Output, bytes_max: int) -> bool:
        """Keep an output; False: the record is not one of those.

        Raises:
            BufferError: As `effects.file`.
        """
        sent = self._sent.get(record)
        if sent is None:
            return False
        sent.put(output, bytes_max)
        return True

    def end(self, record: Record) -> Sequence[Effect]:
        """Its handler has ended; returns what it has sent."""
        return self._sent.pop(record, ())


class Outputs:
    """Takes what handlers send.

    Args:
        topics: The declared topics by name.
        bytes_max: So many bytes may be sent for one record.
        file: Files an output with its record; False if the attempt at the record is over.
        owner: Whose records they are: a group and a member of it; None: anybody's.
    """

    def __init__(
        self,
        topics: Mapping[str, OutputTopic],
        bytes_max: int,
        file: Callable[[Record, Output, int], bool] = effects.file,
        owner: tuple[str, str] | None = None,
    ) -> None:
        self._topics = topics
        self._bytes_max = bytes_max
        self._file = file
        self._owner = owner

    def __reduce__(self) -> tuple[Callable[..., Outputs], tuple[Mapping[str, OutputTopic], int]]:
        """In a child process: the same topics, and outputs are kept for the parent."""
        return ChildOutputs, (self._topics, self._bytes_max)

    def send(  # noqa: PLR0917 - arguments by name cost 0.1 µs a call
        self,
        record: Record,
        topic: str,
        key: Text,
        value: Text,
        headers: SentHeaders = NO_HEADERS,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """See `Context.send`."""
        output = self.checked(topic, key, value, headers, partition, timestamp_ms)
        try:
            if self._is_ours(record) and self._file(record, output, self._bytes_max):
                return
        except BufferError:
            raise self._too_much(record) from None
        except AttributeError:  # it is no record, or a copy
            pass
        raise self._over(record)

    def carrying(self, record: Record, headers: SentHeaders) -> SentHeaders:  # noqa: ARG002
        """The headers of an output, with what else it carries; `checked` takes them."""
        return headers

    def _is_ours(self, record: Record) -> bool:
        """Else another member of this process would send it, or nobody."""
        if self._owner is None:
            return True
        key = record._tenure.key
        return self._owner == (key.group, key.tenure.member)

    def refuse_too_much(self, record: Record, sent: Iterable[Output]) -> None:
        """Check that one record may have these outputs.

        Raises:
            MisuseError: They take more than one record's may.
        """
        if sum(it.size for it in sent) > self._bytes_max:
            raise self._too_much(record)

    def checked(  # noqa: PLR0917
        self,
        topic: str,
        key: Text,
        value: Text,
        headers: SentHeaders,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Output:
        """The output that `send` files, see `Context.send`."""
        known = self._topics.get(topic)
        if known is None:
            raise self._undeclared(topic)
        if type(key) is not bytes:  # quicker than a call
            key = _bytes("key", key)
        if type(value) is not bytes:
            value = _bytes("value", value)
        size = FRAME_BYTES + len(key or b"") + len(value or b"")
        if headers is not NO_HEADERS:
            headers = _encoded(headers)
            size += sum(len(name) + len(it or b"") + _HEADER_FRAME_BYTES for name, it in headers)
        if size > known.record_max_bytes:
            detail = f"{size} bytes with what Kafka adds, and it takes {known.record_max_bytes}"
            raise RecordTooLargeError(topic, detail)
        if key is None and known.is_compacted:
            raise _refused(f"topic {topic} is compacted, so each record needs a key", "Name a key")
        if partition is None:
            partition = -1
        elif not (_is_whole(partition) and partition < known.partitions):
            raise _refused(
                f"topic {topic} has no partition {partition!r}, but {known.partitions}, from 0 on",
                "Name one that it has, or none: then the key chooses",
            )
        if timestamp_ms is not None and not (
            _is_whole(timestamp_ms) and timestamp_ms <= _LATEST_MS
        ):
            raise _refused(
                f"{timestamp_ms!r:.40} is no timestamp",
                "Give milliseconds since 1970 as a whole number, or none",
            )
        # By its constructor a named tuple takes three times as long.
        return tuple.__new__(
            Output, (topic, key, value, headers, partition, timestamp_ms or 0, size)
        )

    def _undeclared(self, topic: object) -> MisuseError:
        declared = ", ".join(sorted(self._topics)) or "none is"
        return _refused(
            f"topic {topic!r} is not declared ({declared})",
            'Name it in the worker: outputs = ("TOPIC",); or in the setting output.topics',
        )

    def _too_much(self, record: Record) -> MisuseError:
        return _refused(
            f"the outputs of {place_of(record)} would take more than output.max.bytes="
            f"{self._bytes_max}",
            "Send less for one record, or raise that setting",
        )

    def _over(self, record: Record) -> MisuseError:
        if not isinstance(record, Record):
            problem = f"{type(record).__name__} is no record"  # it may be a value, or hold one
        elif record.is_copy:
            problem = f"{place_of(record)} is a copy, pickled or copied, or has ended"
        elif not self._is_ours(record):
            problem = f"{place_of(record)} is another member's: {record._tenure.id.member}"
        else:
            problem = (
                f"{place_of(record)} is finished, or this attempt at it (attempt {record._attempt})"
                " has failed or was given up on"
            )
        remedy = "Send while the handler runs, with the record itself that it was given"
        return _refused(problem, remedy)


class ChildOutputs(Outputs):
    """Outputs of a child process.

    Attributes:
        open: The records at work, with what their handlers have sent.
    """

    def __init__(self, topics: Mapping[str, OutputTopic], bytes_max: int) -> None:
        self.open = OpenRecords()
        super().__init__(topics, bytes_max, self.open.file)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _refused(problem: str, remedy: str) -> MisuseError:
    return MisuseError(CALL, problem, remedy, "Nothing was sent")


def _bytes(what: str, value: Text) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _encode(what, value)
    kind = type(value).__name__
    raise _refused(f"the {what} is {kind}, not bytes", f"Encode the {what} to bytes first")


def _encode(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        problem = f"the {what} is text with a lone surrogate, which no UTF-8 has"
        raise _refused(problem, f"Encode the {what} to bytes first") from None


def _encoded(headers: SentHeaders) -> tuple[tuple[str, bytes | None], ...]:
    """The headers, with values as bytes.

    Raises:
        MisuseError: They are no pairs. Two characters are none, nor is a dict: its names of two
            characters would be taken apart.
    """
    try:
        return tuple(
            (_name(name), _bytes(f"header {name}", value)) for name, value in map(_pair, headers)
        )
    except (TypeError, ValueError):
        raise _refused(
            f"the headers, a {type(headers).__name__}, are no headers",
            "Give a list of tuples of a name (str, in UTF-8) and a value (bytes, str or None)",
        ) from None


def _pair(header: tuple[str, Text]) -> tuple[str, Text]:
    if isinstance(header, str):
        raise TypeError
    return header


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError
    name.encode()  # confluent-kafka crashes the interpreter by a name that UTF-8 has not
    return name
