"""A commit log in memory: what holds it up, how much goes together, and what callers are told."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

import pytest

from coop_consumer.core.transaction import Said
from coop_consumer.errors import AppendInDoubtError, LogBlockedError
from coop_consumer.logs import Applied, CommitLog, MemoryPartition, log_thread, replica
from coop_consumer.logs.appender import APPEND_MAX_BYTES, TIMEOUT_S
from coop_consumer.logs.memory_log import MemoryClient
from coop_consumer.logs.records import NewRecord, VisibleRecord
from tests.support.journal import WAIT_S
from tests.support.registers import Registers, put


@pytest.fixture
def partition() -> MemoryPartition:
    return MemoryPartition(lock=threading.RLock())


@pytest.fixture
def dead(partition: MemoryPartition) -> Iterator[MemoryClient]:
    """Another process that has died in an append."""
    client = MemoryClient(partition, "dead")
    assert client.renew() is Said.DONE
    client.produce([put("x", "of the dead")])
    return client


class Unread:
    """A state that any record leaves as it is."""

    def apply(self, records: Sequence[VisibleRecord]) -> Sequence[object]:
        return (None,) * len(records)

    def snapshot(self) -> Iterator[bytes]:
        yield b""

    def restore(self, parts: Iterable[bytes]) -> None:
        del parts


class Powerless(MemoryClient):
    """May not end the transactions of others, or does not know whose they are."""

    def end_blocker(self, offset: int) -> bool:
        del offset
        return False


def test_a_read_ends_the_transaction_of_who_has_died(
    partition: MemoryPartition, dead: MemoryClient
) -> None:
    """Brokers would do so after its time-out, which may be a quarter of an hour."""
    state = Registers()
    with CommitLog.in_memory(partition, "a", state) as log:
        assert log.read(lambda: dict(state.values), timeout_s=WAIT_S) == {}
        assert dead.commit() is Said.BROKEN
        assert isinstance(log.append([put("x", 1)]), Applied)


def test_who_waits_for_a_stranger_s_transaction_is_told_whose_it_is(
    partition: MemoryPartition,
) -> None:
    with CommitLog(Powerless(partition, "a"), Registers()) as log:
        log.append([put("x", 0)])
        log._replica.patience_s = 1.0
        log._replica._appender._rule._fence_at_ms = 1e9  # to ask for it would be in vain
        stranger = MemoryClient(partition, "stranger")
        assert stranger.renew() is Said.DONE
        stranger.produce([put("x", 1)])
        with pytest.raises(LogBlockedError, match="of stranger has been undecided at offset 2"):
            log.sync()
        with pytest.raises(LogBlockedError, match="of stranger has been undecided at offset 2"):
            log.append([put("x", 2)])
        assert stranger.commit() is Said.DONE
        log.sync()
        assert isinstance(log.append([put("x", 3)]), Applied)
    assert replica.PATIENCE_S < TIMEOUT_S, "else callers would give up before they are told"


def test_what_waits_goes_in_appends_of_a_bounded_size(
    partition: MemoryPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_thread, "SHARED_MAX", 10)
    with CommitLog.in_memory(partition, "a", Registers()) as log:
        with partition.lock:  # the first append waits
            asked = [log.append_later([put("x", n)] * 4) for n in range(20)]
            asked.append(log.append_later([put("x", 99)] * 50))
        tokens = [it.result(WAIT_S).token.offset for it in asked]
    sizes = [4 * tokens[:-1].count(token) for token in dict.fromkeys(tokens[:-1])]
    assert max(sizes) == 8, "two of four together; a third one would be above the bound"
    assert tokens[-1] not in tokens[:-1], "one that is larger goes alone"


def test_large_records_of_several_callers_go_in_appends_of_their_own(
    partition: MemoryPartition,
) -> None:
    """A few of them in one transaction would be more than a caller may append."""
    part = log_thread.SHARED_MAX_BYTES // 8
    sizes = [6 * part, 6 * part, part, 9 * part, part, part]
    with CommitLog.in_memory(partition, "a", Unread()) as log:
        with partition.lock:  # the first append waits, and the others for it
            log.append_later([NewRecord(b"first", b"")])
            asked = [log.append_later([NewRecord(b"", bytes(size))]) for size in sizes]
        tokens = [it.result(WAIT_S).token.offset for it in asked]
    together = [tokens.count(token) for token in dict.fromkeys(tokens)]
    assert together[-4:] == [1, 2, 1, 2]
    assert log_thread.SHARED_MAX_BYTES <= APPEND_MAX_BYTES


def test_a_doubt_about_an_append_that_many_share_names_no_id(partition: MemoryPartition) -> None:
    """A caller cannot send it again: it has records of others."""
    with CommitLog.in_memory(partition, "a", Registers()) as log:

        def append(_: object) -> None:
            raise AppendInDoubtError("memory", 0, bytes(16), "the brokers are away")

        log._replica.append = append  # type: ignore[assignment, method-assign]
        with pytest.raises(AppendInDoubtError, match="Read what is visible to learn it") as raised:
            log.append([put("x", 1)])
        assert raised.value.append_id == b""
