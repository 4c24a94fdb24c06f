"""Is every client of Kafka made of settings that bring its login tokens?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import coop_consumer

ROOT = Path(str(coop_consumer.__file__)).parents[1]
LIBRDKAFKA = {"Consumer", "Producer", "AdminClient"}
LOGGED_IN = {"logged_in", "without_login"}
KAFKA_PYTHON = {"KafkaAdminClient", "KafkaNetClient", "KafkaConsumer"}
APART = ("coop_consumer/broker", "coop_consumer/demo")
"""They make clients of settings of their own, without a configuration."""


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    for package in ("coop_consumer", "streams_adapter"):
        for path in sorted((ROOT / package).rglob("*.py")):
            place = str(path.relative_to(ROOT))
            if place.startswith(APART):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    yield f"{place}:{node.lineno}", node, node.func.id


def test_a_client_of_librdkafka_is_made_of_settings_that_are_logged_in() -> None:
    made = [(place, node) for place, node, name in calls() if name in LIBRDKAFKA]
    assert len(made) >= 19, "the clients were not found"
    for place, node in made:
        first = node.args[0]
        assert isinstance(first, ast.Call), place
        assert isinstance(first.func, ast.Name), place
        assert first.func.id in LOGGED_IN, place


def test_a_client_of_kafka_python_is_made_by_way_of_its_login() -> None:
    made = [(place, node) for place, node, name in calls() if name in KAFKA_PYTHON]
    assert len(made) >= 4, "the clients were not found"
    for place, node in made:
        (keywords,) = node.keywords
        text = ast.unparse(keywords.value)
        assert text in {"keywords", "for_admin(settings)"} or "logged_in_membership" in text, place
    from_config = [
        (place, node) for place, node, name in calls() if name == "for_admin" and node.args
    ]
    assert len(from_config) >= 5
