"""The admin side without a broker: what it says, and what it does not."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from assignors import TopicPartition
from coop_consumer.admin import topic_admin
from coop_consumer.admin.topic_admin import TopicAdmin
from coop_consumer.config import Config
from coop_consumer.errors import BrokerUnreachableError, ConfigError, UnexpectedAnswerError
from coop_consumer.kafka.own_topics import progress_topic
from coop_consumer.kafka.topics import EARLIEST, TopicFacts, Topics


def test_an_unreachable_broker_is_one_error_and_no_flood_on_stderr(
    capfd: pytest.CaptureFixture[str],
) -> None:
    topics = Topics(Config.from_dict({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}))
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1: no broker answered"):
        topics.check_broker(timeout_s=0.5)
    told = capfd.readouterr()  # of this broker: a client of another test may have lost its own
    assert "127.0.0.1:1/" not in told.out + told.err


def told_by(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the calls have told; threads of other tests may tell something, too."""
    return [it.message for it in caplog.records if it.name == "coop_consumer.kafka.admin_calls"]


def test_while_a_broker_is_tried_a_line_tells_why_it_does_not_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topics = Topics(Config.from_dict({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}))
    with pytest.raises(BrokerUnreachableError, match="Connection refused") as caught:
        topics.check_broker(timeout_s=2.5)  # the second try is told no more
    assert "in state" not in caught.value.detail
    assert told_by(caplog) == [
        f"cluster 127.0.0.1:1: no answer yet ({caught.value.detail}); trying for 2.5 s"
    ]


def test_who_tells_himself_that_no_broker_answers_hears_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topics = Topics(Config.from_dict({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}))
    with pytest.raises(BrokerUnreachableError, match="Connection refused"):
        topics.check_broker(timeout_s=2.5, warns=False)
    assert told_by(caplog) == []


def test_a_broker_that_accepts_and_is_silent_is_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one that was stopped by SIGSTOP. It was a bare TimeoutError, which ended a thread."""
    monkeypatch.setattr(Topics, "timeout_s", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        config = Config.from_dict({"bootstrap.servers": address, "group.id": "g"})
        topics = Topics(config)
        for ask in (
            lambda: topics.describe(["orders"]),
            lambda: topics.settings_of("orders"),
            lambda: topics.allowed("orders"),
            lambda: topics.offsets([TopicPartition("orders", 0)], EARLIEST),
            lambda: progress_topic(topics, config),
        ):
            with pytest.raises(BrokerUnreachableError, match=r"silent for 0\.2 s"):
                ask()


def test_that_the_cluster_cannot_be_looked_at_is_said_in_our_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Topics, "timeout_s", 0.2)
    topics = Topics(Config.from_dict({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}))
    for ask in (topics.brokers, topics.names):
        with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1: no broker answered"):
            ask()


def test_after_no_broker_was_reached_another_client_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one before may have lost all brokers, for ever."""
    monkeypatch.setattr(Topics, "timeout_s", 0.2)
    topics = Topics(Config.from_dict({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}))
    before = topics.admin
    assert topics.admin is before
    with pytest.raises(BrokerUnreachableError):
        topics.describe(["orders"])
    assert topics.admin is not before


@pytest.mark.parametrize("name", ["a\ud800", "a\x00", "", "a b", ".."])
def test_a_name_that_no_client_can_send_is_refused_before_anything_is_asked(name: str) -> None:
    topics = Topics(Config.from_dict({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}))
    with pytest.raises(ConfigError, match="is no topic's name"):
        topics.describe(["orders", name])


@pytest.mark.parametrize("refusals", [0, 3, 100])
def test_a_topic_is_made_once_each_of_its_partitions_is_led(
    refusals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wide one was told as made, and the next command failed: nobody led all of it."""
    now_s, asked = [0.0], []
    facts = TopicFacts(b"1" * 16, 2)

    def offsets(_: Topics, places: list[TopicPartition], __: object) -> dict[TopicPartition, int]:
        now_s[0] += 1
        asked.append(places)
        if len(asked) <= refusals:
            raise UnexpectedAnswerError("topic wide", "Broker: Not leader for partition")
        return dict.fromkeys(places, 0)

    monkeypatch.setattr(topic_admin, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    for name, answer in {"find": None, "create": None, "once_made": facts}.items():
        monkeypatch.setattr(TopicAdmin, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(TopicAdmin, "offsets", offsets)
    topics = TopicAdmin(Config.from_dict({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}))
    if refusals < 60:
        assert topics.make("wide", 2, 1, {}) == (True, facts)
        assert len(asked) == refusals + 1
    else:
        with pytest.raises(UnexpectedAnswerError, match="Not leader") as caught:
            topics.make("wide", 2, 1, {})
        assert caught.value.__notes__ == [
            "Topic wide is made. It can be used once that has passed."
        ]
    assert all(places == [TopicPartition("wide", number) for number in (0, 1)] for places in asked)
