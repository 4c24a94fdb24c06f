"""Whatever is put into a configuration: it is taken, or refused by its name."""

from __future__ import annotations

import decimal
import math
import pickle
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coop_consumer.config import Config, checked_topics, read_config_file
from coop_consumer.config.librdkafka import ALIASES, DECIDED, PASSED
from coop_consumer.config.settings import SETTINGS
from coop_consumer.errors import ConfigError

LEAST = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}
NAMES = sorted({*SETTINGS, *PASSED, *DECIDED, *ALIASES, "nonsense", ""})


class Unspeakable:
    """Cannot be compared, shown or made text of."""

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise ZeroDivisionError


HOSTILE: list[Any] = [
    None, "", " ", "  x ", -1, 0, 1, 2**31, 2**63, -(2**70), 10**5_000, 1.0, 1.5, 1e300, math.nan,
    math.inf, -math.inf, True, False, "true", "yes", "0", "1_000", "0x10", "1e3", "inf", "nan",
    "9" * 5_000, [], {}, (), set(), b"x", b"", bytearray(b"x"), object(), Unspeakable(), "\x00",
    "a\x00b", "a\nb", "\x1b[2J", "\x85", "\u2028", "\ud800", "a\udcff", "ü" * 300, "a" * 100_000,
    ["a"], ["a", "b"], [None], [1], [b"x"], ["\ud800"], [["a"]], decimal.Decimal(5), Path("x"),
    "{topic}", "{0}", "%s", "none", ",", "a,,b", ".", "..", "^a.*", len, ValueError("x"), range(3),
    "localhost:99999", "localhost:0", "localhost:-1", "[::1]:9092", "PLAINTEXT://h:1",
    "h:1," * 10_000, int, Ellipsis,
]  # fmt: skip


def texts(value: object) -> Iterator[str]:
    """All texts in what a client is made from."""
    match value:
        case str():
            yield value
        case Mapping():
            for name, inner in value.items():
                yield from texts(name)
                yield from texts(inner)
        case list() | tuple():
            for inner in value:
                yield from texts(inner)


def views(config: Config) -> Iterator[Mapping[str, Any]]:
    yield config.data_plane()
    yield config.progress_reader()
    yield config.producer()
    yield config.producer("transaction")
    yield config.admin()
    with suppress(ConfigError):  # certificates are looked for where they are used
        yield config.membership()


def check(given_: Any) -> None:
    """A configuration that can be used, shown and sent; or an error that can be read."""
    try:
        config = Config.from_dict(given_)
    except ConfigError as error:
        text = str(error)
        assert text.isprintable()
        assert len(text) < 1_000
        return
    assert repr(config)
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 - our own bytes
    for view in views(config):
        for text in texts(view):
            assert "\x00" not in text
            assert text.encode("utf-8") is not None


@pytest.mark.parametrize("name", NAMES)
def test_any_value_of_any_setting_is_taken_or_refused(name: str) -> None:
    for value in HOSTILE:
        check(LEAST | {name: value})


@pytest.mark.parametrize("name", [5, None, b"group.id", ("a",), "\ud800", "\x00", "a" * 100_000])
def test_any_name_is_taken_or_refused(name: object) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_dict({**LEAST, name: "x"})  # type: ignore[dict-item]
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("mapping", [None, "a=b", 5, [("a", "b")], b"", Config])
def test_what_is_no_dict_of_settings_is_refused(mapping: Any) -> None:
    with pytest.raises(ConfigError, match="not a dict of dotted names"):
        Config.from_dict(mapping)


@pytest.mark.parametrize("field", [setting.field for setting in SETTINGS.values()])
def test_a_changed_copy_is_as_strict(field: str) -> None:
    config = Config.from_dict(LEAST)
    for value in HOSTILE:
        try:
            changed = replace(config, **{field: value})
        except ConfigError:
            continue
        assert list(map(str.encode, texts(list(views(changed)))))


@pytest.mark.parametrize("text", ["\ud800", "a\udcff", "\x00", "\x1b", "a\nb", "x" * 2_000])
@pytest.mark.parametrize("name", ["group.id", "client.id", "host", "group.instance.id", "topics"])
def test_a_text_that_no_client_can_send_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(LEAST | {name: text})
    assert caught.value.name == name


@pytest.mark.parametrize("topics", ["\ud800", ["\ud800"], [None], [5], [b"a"], 5, None, [[]], b"a"])
def test_topics_that_are_none_are_refused(topics: Any) -> None:
    with pytest.raises(ConfigError):
        checked_topics(topics)


def test_a_file_cannot_bring_what_no_client_can_send(tmp_path: Path) -> None:
    path = tmp_path / "consumer.properties"
    path.write_text("bootstrap.servers=b:9092\ngroup.id=a\\ud800b\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"group\.id=a.ud800b has the character .ud800, which"):
        Config.from_dict(read_config_file(path))


@given(st.dictionaries(st.sampled_from(NAMES), st.text() | st.integers() | st.floats(), max_size=3))
def test_any_mix_of_settings_is_taken_or_refused(settings: dict[str, object]) -> None:
    check(LEAST | settings)
