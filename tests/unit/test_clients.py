"""Settings that librdkafka refuses are reported before anything runs, by the user's names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coop_consumer.config import Config
from coop_consumer.errors import ConfigError
from coop_consumer.kafka.clients import check_settings
from coop_consumer.kafka.fetcher import FetchThread
from coop_consumer.kafka.progress_log import ProgressReader
from coop_consumer.kafka.topics import Topics

LEAST = {"bootstrap.servers": "127.0.0.1:1", "group.id": "billing", "log_level": 0}


def refusal(check: Callable[[Config], object], settings: dict[str, object]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        check(Config.from_dict(LEAST | settings))
    return caught.value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fetch.min.bytes", "many"),
        ("fetch.max.bytes", 1),
        ("queued.min.messages", 0),
        ("batch.size", "small"),
        ("compression.type", "zip"),
        ("max.in.flight.requests.per.connection", 10),
        ("socket.max.fails", "many"),
        ("debug", "everything"),
    ],
)
def test_a_value_that_a_client_refuses_is_told_by_its_name(name: str, value: object) -> None:
    error = refusal(check_settings, {name: value})
    assert error.name == name
    assert str(error).startswith(f"{name}={value} is refused by librdkafka (")


def test_the_other_name_that_librdkafka_has_for_a_setting_is_understood() -> None:
    error = refusal(check_settings, {"retries": "often"})
    assert error.name == "retries"
    assert "message.send.max.retries" in error.problem


def test_settings_that_are_fine_are_let_pass_without_a_broker() -> None:
    check_settings(Config.from_dict(LEAST | {"fetch.min.bytes": "10", "linger.ms": 5}))


def test_a_tool_that_needs_one_client_says_the_same() -> None:
    assert refusal(Topics, {"socket.max.fails": "many"}).name == "socket.max.fails"


def test_a_thread_that_cannot_go_on_says_so() -> None:
    """It used to die alone: its member kept its ranges and fetched nothing."""
    told: list[Exception] = []
    broken = {"group.id": "billing", "surely.unknown": 1}

    def never(*_: object) -> None:
        pytest.fail("nothing can come of this")

    FetchThread(broken, never, never, told.append, missing=never, name="fetch").close()
    ProgressReader(broken, "log", never, told.append, name="read").close()
    assert ["surely.unknown" in str(error) for error in told] == [True, True]
