"""How the tests pick their broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

import pytest
from docker.errors import DockerException  # type: ignore[import-untyped] # it ships no types
from testcontainers.core.container import DockerContainer

from tests.support.brokers import (
    ChosenBroker,
    ContainerEndedError,
    NobodyAnswersError,
    choose_origin,
    docker_answers,
    docker_settings,
    reachable_host,
    start_broker,
    wait_until_broker_answers,
)


def no_question_expected() -> bool:
    raise AssertionError("Docker was asked although the choice was made")


def test_given_address_wins() -> None:
    environment = {"COOP_TEST_BOOTSTRAP": "kafka:9092"}
    assert choose_origin(environment, no_question_expected) == "given"


def test_given_address_where_nobody_answers_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.support.brokers.GIVEN_ANSWER_TIMEOUT_S", 0.05)
    with (
        ExitStack() as until_end,
        pytest.raises(NobodyAnswersError, match=r"COOP_TEST_BOOTSTRAP=127\.0\.0\.1:1:"),
    ):
        start_broker({"COOP_TEST_BOOTSTRAP": "127.0.0.1:1"}, until_end)


def test_docker_is_taken_if_it_answers() -> None:
    assert choose_origin({}, lambda: True) == "docker"


def test_embedded_broker_is_the_last_resort() -> None:
    assert choose_origin({}, lambda: False) == "embedded"


def test_docker_can_be_passed_over() -> None:
    environment = {"COOP_TEST_BROKER": "embedded"}
    assert choose_origin(environment, no_question_expected) == "embedded"


def test_missing_docker_socket_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    assert not docker_answers()


def test_docker_engine_that_is_stuck_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.brokers.DOCKER_ANSWER_TIMEOUT_S", 0.05)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.bind(f"{tmp_path}/docker.sock")
        stuck.listen()
        assert not docker_answers()


class FakeEmbeddedBroker:
    """Runs nowhere; tells whether it was stopped."""

    bootstrap_servers = "127.0.0.1:20002"
    stopped = False

    def __init__(self, **_: object) -> None:
        pass

    def __enter__(self) -> FakeEmbeddedBroker:
        return self

    def __exit__(self, *_: object) -> None:
        FakeEmbeddedBroker.stopped = True


@contextmanager
def engine_without_image() -> Iterator[str]:
    raise DockerException("no way to the registry")
    yield "never"


def test_engine_that_cannot_get_the_image_leaves_it_to_the_embedded_broker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(FakeEmbeddedBroker, "stopped", False)
    monkeypatch.setattr("tests.support.brokers.docker_answers", lambda: True)
    monkeypatch.setattr("tests.support.brokers.docker_broker", engine_without_image)
    monkeypatch.setattr("tests.support.brokers.EmbeddedBroker", FakeEmbeddedBroker)
    monkeypatch.setattr("tests.support.brokers.jvm_options", tuple)
    with ExitStack() as until_end:
        chosen = start_broker({}, until_end)
        assert chosen == ChosenBroker("127.0.0.1:20002", "embedded")
        assert not FakeEmbeddedBroker.stopped
    assert FakeEmbeddedBroker.stopped
    assert "no way to the registry" in caplog.text


class EndedContainer:
    """A container, and what testcontainers wraps, whose broker refused its settings."""

    status = "exited"

    def get_wrapped_container(self) -> EndedContainer:
        return self

    def reload(self) -> None:
        """The status is known."""

    def logs(self, tail: int) -> bytes:
        lines = [b"Starting", b"Invalid value a week for configuration log.retention.ms"]
        return b"\n".join(lines[-tail:])


def test_container_that_ended_is_not_waited_for_and_shows_the_end_of_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.support.brokers.DOCKER_LOG_TAIL_LINES", 1)
    container = cast(DockerContainer, EndedContainer())
    with pytest.raises(ContainerEndedError, match="the container is exited") as caught:
        wait_until_broker_answers(container, "127.0.0.1:1")
    assert caught.value.__notes__ == ["Invalid value a week for configuration log.retention.ms"]


def test_local_engine_opens_ports_on_the_loopback_address() -> None:
    assert reachable_host("localhost") == "127.0.0.1"


def test_engine_elsewhere_opens_ports_there() -> None:
    assert reachable_host("172.17.0.1") == "172.17.0.1"


def test_settings_reach_the_image_as_environment() -> None:
    settings = docker_settings("172.17.0.1", 20_001)
    assert settings["KAFKA_ADVERTISED_LISTENERS"].startswith("CLIENT://172.17.0.1:20001,")
    assert settings["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
