"""How the tests pick their broker."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.brokers import choose_origin, docker_answers, docker_settings


def no_question_expected() -> bool:
    raise AssertionError("Docker was asked although the choice was made")


def test_given_address_wins() -> None:
    environment = {"COOP_TEST_BOOTSTRAP": "kafka:9092"}
    assert choose_origin(environment, no_question_expected) == "given"


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
    monkeypatch.setattr("tests.brokers.DOCKER_ANSWER_TIMEOUT_S", 0.05)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.bind(f"{tmp_path}/docker.sock")
        stuck.listen()
        assert not docker_answers()


def test_settings_reach_the_image_as_environment() -> None:
    settings = docker_settings(20_001)
    assert settings["KAFKA_ADVERTISED_LISTENERS"] == "CLIENT://127.0.0.1:20001"
    assert settings["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
