"""How long a slice waits for brokers, and what it says meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.config.config import PREFETCH_KBYTES
from coop_consumer.errors import BrokerUnreachableError, DataLossError, LogBlockedError
from coop_consumer.kafka import clients, open_transactions, slice_reader
from coop_consumer.kafka.slice_reader import read_slice
from coop_consumer.status.open_transaction import OpenTransaction
from offsets import OffsetRange

CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"})
EOF, GONE, NO_GROUP, TEN_S = "eof", "gone", "no group", 10.0


class FakeMessage:
    def __init__(self, offset: int, code: int | None = None, key: bytes = b"") -> None:
        self._offset, self._code, self._key = offset, code, key

    def key(self) -> bytes:
        return self._key

    def headers(self) -> None:
        return None

    def error(self) -> KafkaError | None:
        return None if self._code is None else KafkaError(self._code)

    def offset(self) -> int:
        return self._offset


class Broker:
    """Answers with what is in `answers`, one after the other; None: nothing for ten seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: object) -> None:
        self.now_s, self.answers = 1_000.0, list(answers)
        self.is_away, self.is_back = True, False
        self.code_while_away = KafkaError._TRANSPORT
        self.partitions = {0}
        self.end = 5  # the last stable offset is 5
        self.key = b""
        self.prefetched: list[int | None] = []
        self.assigned: list[int] = []
        consumer = SimpleNamespace(
            assign=lambda places: self.assigned.append(places[0].offset),
            close=lambda: None,
            get_watermark_offsets=self._watermarks,
            list_topics=self._topics,
        )
        asker = SimpleNamespace(close=lambda: None, get_watermark_offsets=self._all)

        def make(settings: dict[str, Any], **_: object) -> Any:
            if settings["isolation.level"] == "read_uncommitted":
                return asker
            self.prefetched.append(settings.get("queued.min.messages"))
            return consumer

        monkeypatch.setattr(slice_reader, "Consumer", make)
        monkeypatch.setattr(slice_reader, "waiting_messages", self._waiting)
        monkeypatch.setattr(slice_reader, "successor", lambda *_: None)
        for module in (slice_reader, clients):
            monkeypatch.setattr(module, "monotonic", lambda: self.now_s)

    def _waiting(self, *_: object) -> list[FakeMessage]:
        answer = self.answers.pop(0) if self.answers else None
        if answer is None:
            self.now_s += TEN_S
            return []
        if answer == EOF:
            return [FakeMessage(5, KafkaError._PARTITION_EOF)]
        if answer == NO_GROUP:
            return [FakeMessage(0, KafkaError.GROUP_AUTHORIZATION_FAILED)]
        if answer == GONE:
            self.is_away, self.is_back = not self.is_back, True
            return [FakeMessage(5, KafkaError._AUTO_OFFSET_RESET)]
        assert isinstance(answer, int)
        return [FakeMessage(answer, key=self.key)]

    def _watermarks(self, *_: object) -> tuple[int, int]:
        if self.is_away:
            raise KafkaException(KafkaError(self.code_while_away))
        return 0, 5

    def _all(self, *_: object) -> tuple[int, int]:
        return self._watermarks()[0], self.end

    def _topics(self, *_: object) -> Any:
        if self.is_away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        topic = SimpleNamespace(error=None, partitions=self.partitions)
        return SimpleNamespace(topics={"t": topic})


def offsets(**options: Any) -> Iterator[int]:
    for messages, _ in read_slice(CONFIG, TopicPartition("t", 0), OffsetRange(0, 9), **options):
        yield from (message.offset() or 0 for message in messages)


Make = Callable[..., Broker]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Make:
    return lambda *answers: Broker(monkeypatch, *answers)


def test_it_waits_as_long_as_it_is_told_and_says_so(
    broker: Make, caplog: pytest.LogCaptureFixture
) -> None:
    broker(*range(5), *[None] * 25, *range(5, 10))
    assert [*offsets(patience_s=300.0)] == [*range(10)]
    waits = [it for it in caplog.messages if "nothing was heard from offset 5" in it]
    assert len(waits) == 5, "250 s, one a minute"
    assert "t-0: heard again after 250 s" in caplog.text


def test_it_needs_no_right_to_a_group(broker: Make) -> None:
    """librdkafka looks for the group's coordinator all the same, and reports that it may not."""
    broker(*range(5), NO_GROUP, *range(5, 10))
    assert [*offsets()] == [*range(10)]


def test_it_ends_after_that(broker: Make) -> None:
    it = broker(0)
    with pytest.raises(BrokerUnreachableError, match="t-0 from offset 1: nothing for 300 s"):
        [*offsets(patience_s=300.0)]
    assert it.now_s == 1_000 + 310


@pytest.mark.parametrize("is_away", [True, False])
def test_a_log_that_ends_too_early_was_cut_off_if_a_broker_says_so(
    broker: Make, is_away: bool
) -> None:
    it = broker(*range(5), EOF)
    it.is_away = is_away
    error = BrokerUnreachableError if is_away else DataLossError
    with pytest.raises(error):
        [*offsets(patience_s=300.0)]
    assert it.now_s == 1_000 + (310 if is_away else 70)


def test_a_transaction_that_hides_the_rest_is_no_loss_and_is_named(
    broker: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever believes in a loss moves the group, and what was done is done again."""

    def told(_: Config, ends: Mapping[TopicPartition, tuple[int, int]]) -> Any:
        found = {tp: OpenTransaction(tp, *at, "b:9092", 0, "coop-m1") for tp, at in ends.items()}
        return {tp: replace(it, is_hanging=True) for tp, it in found.items()}

    monkeypatch.setattr(open_transactions, "open_transactions", told)
    it = broker(*range(5), EOF)
    it.is_away, it.end = False, 12
    named = (
        r"transactional\.id coop-m1 has been undecided at .* Brokers will never end it, .* abort"
    )
    with pytest.raises(LogBlockedError, match=named):
        [*offsets(patience_s=300.0)]
    assert it.now_s == 1_070


def test_large_keys_are_prefetched_in_small_numbers_as_librdkafka_does_not_count_them(
    broker: Make,
) -> None:
    it = broker(*range(10))
    it.key = bytes(1 << 20)
    assert [*offsets()] == [*range(10)]
    assert it.prefetched == [None, PREFETCH_KBYTES // 1_024]
    assert it.assigned == [0, 1], "the second client goes on behind what the first has brought"


def test_small_keys_are_prefetched_as_ever(broker: Make) -> None:
    it = broker(*range(10))
    it.key = b"N14228"
    assert [*offsets()] == [*range(10)]
    assert it.prefetched == [None]


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._UNKNOWN_PARTITION])
def test_offsets_that_are_gone_are_asked_for_again_if_the_broker_goes_away_just_then(
    broker: Make, code: int
) -> None:
    """While all brokers are away, librdkafka calls every partition unknown."""
    it = broker(*range(5), GONE, None, GONE)
    it.code_while_away = code
    with pytest.raises(DataLossError) as caught:
        [*offsets(patience_s=300.0)]
    assert (caught.value.first, caught.value.last) == (5, 9)
    assert it.assigned == [0, 5]


def test_an_end_that_was_not_the_end_says_nothing_later(broker: Make) -> None:
    it = broker(*range(5), EOF, 5, *[None] * 10, *range(6, 10))
    it.is_away = False
    assert [*offsets(patience_s=300.0)] == [*range(10)]


def test_a_partition_that_is_not_there_any_more_is_a_loss(broker: Make) -> None:
    it = broker(*range(5))
    it.is_away, it.partitions = False, {1}
    with pytest.raises(DataLossError) as caught:
        [*offsets(patience_s=300.0)]
    assert (caught.value.first, caught.value.last) == (5, 9)
    assert it.now_s == 1_030
