"""What users of logs write type-checks as they expect; mypy runs over it, and nothing else does."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import assert_type

from coop_consumer.logs import (
    Applied,
    BulkLoaded,
    CommitLog,
    ConditionalProducer,
    Conflict,
    Denied,
    LogToken,
    NewRecord,
    StateMachine,
    VisibleRecord,
)


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def apply(self, records: Sequence[VisibleRecord]) -> Sequence[int]:
        self.count += len(records)
        return [self.count] * len(records)

    def snapshot(self) -> Iterable[bytes]:
        yield b"%d" % self.count

    def restore(self, parts: Iterable[bytes]) -> None:
        self.count = int(b"".join(parts))


def publish(producer: ConditionalProducer) -> None:
    token = producer.token()
    end = producer.append([NewRecord(b"key", None, (("header", b"1"),))], token)
    assert_type(end, LogToken | Conflict)
    if isinstance(end, Conflict):
        assert_type(end.found.offset, int)
    assert_type(producer.bulk_load(NewRecord(None, b"x") for _ in range(3)), BulkLoaded)
    assert_type(LogToken.decode(token.encode()), LogToken)


def run() -> None:
    counter = Counter()
    machine: StateMachine = counter
    with CommitLog.open({"bootstrap.servers": "b:9092"}, "counts", 0, "a", machine) as log:
        answer = log.append([NewRecord(None, b"1")], check=lambda: counter.count or None)
        assert_type(answer, Applied | Conflict | Denied)
        assert_type(log.append_later([NewRecord(None, b"1")]), Future[Applied | Conflict | Denied])
        assert_type(log.read(lambda: counter.count), int)
        assert_type(log.peek(lambda: str(counter.count)), str)
        assert_type(log.snapshot(), LogToken)
