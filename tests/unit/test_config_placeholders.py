"""Placeholders in settings: they are replaced once, and what they hold is in no text."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from coop_consumer.config import Config
from coop_consumer.config.placeholders import FILE_MAX_BYTES, resolve
from coop_consumer.errors import ConfigError
from coop_consumer.kafka.clients import making

LEAST = {"bootstrap.servers": "b:9092", "group.id": "billing"}
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "ann"}
SECRET = "hunter2-of-the-test"  # noqa: S105 - nobody's


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T_SECRET", SECRET)
    monkeypatch.setenv("T_STAGE", "eu")
    monkeypatch.setenv("T_NUMBER", "250")
    monkeypatch.setenv("T_AGAIN", "${env:T_SECRET}")
    monkeypatch.setenv("T_EMPTY", "")
    monkeypatch.delenv("T_MISSING", raising=False)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("plain", "plain"),
        ("${env:T_STAGE}", "eu"),
        ("user-${env:T_STAGE}", "user-eu"),
        ("${env:T_STAGE}${env:T_STAGE}/x", "eueu/x"),
        ("${env:T_EMPTY}", ""),
        ("$${env:T_STAGE}", "${env:T_STAGE}"),
        ("a$b$$c}d{", "a$b$$c}d{"),
        ("{topic}-${env:T_STAGE}.dlq", "{topic}-eu.dlq"),
        ("${env:T_AGAIN}", "${env:T_SECRET}"),
    ],
)
def test_a_placeholder_is_replaced_once(text: str, meant: str) -> None:
    settings, secret = resolve({"client.id": text})
    assert settings == {"client.id": meant}
    assert secret == ({"client.id"} if "${env" in text.replace("$${", "") else set())


def test_what_is_no_text_stays_the_same_object() -> None:
    values = {"a": 5, "b": True, "c": None, "d": [1, "x"], "e": ("y",), "f": 1.5, "g": object()}
    settings, secret = resolve(values)
    assert all(settings[name] is value for name, value in values.items())
    assert secret == frozenset()


def test_texts_in_a_list_are_replaced_too() -> None:
    made = Config.from_dict({**LEAST, "topics": ["orders-${env:T_STAGE}", "bills"]})
    assert made.topic_names == ("orders-eu", "bills")


@pytest.mark.parametrize(
    ("content", "meant"),
    [
        (b"pw", "pw"),
        (b"pw\n", "pw"),
        (b"pw\r\n", "pw"),
        (b"pw\n\n", "pw\n"),
        (b" p w ", " p w "),
        (b"\xef\xbb\xbfpw\n", "pw"),
        ("größe".encode(), "größe"),
        (b"", ""),
    ],
)
def test_a_file_is_its_text_without_the_last_line_end(
    tmp_path: Path, content: bytes, meant: str
) -> None:
    (tmp_path / "pw").write_bytes(content)
    assert resolve({"a": f"${{file:{tmp_path}/pw}}"}).settings == {"a": meant}


def test_a_placeholder_may_have_another_one_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pw-eu").write_text(SECRET + "\n", encoding="utf-8")
    monkeypatch.setenv("T_DIR", str(tmp_path))
    found = resolve({"sasl.password": "${file:${env:T_DIR}/pw-${env:T_STAGE}}"})
    assert found.settings == {"sasl.password": SECRET}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("${env:T_MISSING}", r"=\$\{env:T_MISSING\}: there is no such environment variable"),
        ("${env:}", r"=\$\{env:\}: there is no such"),
        ("${env:\ud800}", "there is no such"),
        ("${file:/no/such/file}", r"=\$\{file:/no/such/file\}: the file cannot be read \(No such"),
        ("${file:/}", "cannot be read"),
        ("${file:a\0b}", "is no text"),
        ("${file:/dev/zero}", f"larger than {FILE_MAX_BYTES} bytes"),
        ("${env:T_STAGE", "has a placeholder without its closing brace"),
        ("${evn:T_STAGE}", "begins no placeholder"),
        ("x${T_STAGE}", "begins no placeholder"),
        ("${env:" * 40 + "X" + "}" * 40, "more than 8 deep"),
    ],
)
def test_what_is_not_there_is_named_with_what_to_do(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=rf"^client\.id.*{told}") as caught:
        Config.from_dict({**LEAST, "client.id": text})
    assert caught.value.remedy


def test_an_error_shows_the_placeholder_and_no_other_part_of_the_value() -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_dict({**LEAST, "client.id": "${env:T_SECRET}-abc-${env:T_MISSING}"})
    assert SECRET not in str(caught.value)
    assert "abc" not in str(caught.value)


def test_the_value_reaches_the_clients_and_no_repr() -> None:
    made = Config.from_dict(
        {
            **LEAST,
            **LOGIN,
            "sasl.username": "user-${env:T_STAGE}",
            "sasl.password": "${env:T_SECRET}",
            "commit.interval.ms": "${env:T_NUMBER}",
            "client.rack": "${env:T_SECRET}",
        }
    )
    assert made.commit_interval_ms == 250
    assert made.data_plane()["sasl.password"] == SECRET
    assert made.membership()["sasl_plain_username"] == "user-eu"
    for it in (made, replace(made, workers=3), pickle.loads(pickle.dumps(made))):  # noqa: S301
        assert SECRET not in repr(it)
        for name in ("sasl.username", "sasl.password", "commit.interval.ms", "client.rack"):
            assert f"{name}=***" in repr(it)
    assert made == replace(made, from_placeholders=frozenset())


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        ({"commit.interval.ms": "${env:T_SECRET}"}, [SECRET]),
        ({"max.attempts": "-${env:T_NUMBER}"}, ["250"]),
        ({"on.failure": "${env:T_SECRET}"}, [SECRET]),
        ({"attempt.backoff.ms": "9${env:T_NUMBER}"}, ["9250"]),
        ({"retry.backoff.ms": "${env:T_SECRET}"}, [SECRET]),
        ({"linger.ms": "9${env:T_NUMBER}"}, ["9250"]),
        ({"acks": "${env:T_SECRET}"}, [SECRET]),
        ({"security.protocol": "${env:T_SECRET}"}, [SECRET]),
        ({"topics": ["${env:T_SECRET}/x", "orders"]}, [SECRET]),
        ({"client.id": "${env:T_SECRET}" * 60}, [SECRET]),
    ],
)
def test_an_error_about_a_setting_does_not_show_what_a_placeholder_held(
    settings: dict[str, object], values: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_dict({**LEAST, **settings})
    for value in values:
        assert value not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_what_librdkafka_refuses_is_told_without_the_value() -> None:
    made = Config.from_dict({**LEAST, "compression.type": "${env:T_SECRET}"})
    refused = KafkaError(
        KafkaError._INVALID_ARG, f'Invalid value "{SECRET}" for property "compression.type"'
    )
    with (
        pytest.raises(ConfigError, match=r"compression\.type=\*\*\* is refused") as caught,
        making(made),
    ):
        raise KafkaException(refused)
    assert SECRET not in str(caught.value)


def test_a_role_that_is_refused_is_told_without_the_value() -> None:
    made = Config.from_dict({**LEAST, "progress.topic": "${env:T_SECRET}"})
    with pytest.raises(ConfigError) as caught:
        made.refuse_circles([SECRET])
    assert SECRET not in str(caught.value)


def test_commands_that_are_suggested_have_no_value_of_a_placeholder() -> None:
    made = Config.from_dict({**LEAST, "bootstrap.servers": "${env:T_STAGE}:9092"})
    assert made.command_options == ()
    assert Config.from_dict(LEAST).command_options == ("--bootstrap", "b:9092")
