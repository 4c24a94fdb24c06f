"""Are settings read from files and command lines as Kafka's own tools read them?"""

from __future__ import annotations

from pathlib import Path

import pytest

from coop_consumer.config import Config, parse_option, read_config_file
from coop_consumer.errors import ConfigError


def read(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "member.properties"
    path.write_text(text, encoding="utf-8")
    return read_config_file(path)


def test_a_file_of_kafka_tools_is_read(tmp_path: Path) -> None:
    text = """
# The billing job
! an older way to comment
bootstrap.servers=localhost:9092
group.id: billing
  client.rack   r1
max.attempts = 3
progress.topic.create=false
"""

    settings = read(tmp_path, text)

    assert settings == {
        "bootstrap.servers": "localhost:9092",
        "group.id": "billing",
        "client.rack": "r1",
        "max.attempts": "3",
        "progress.topic.create": "false",
    }
    assert Config.from_dict(settings).max_attempts == 3


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("a=b=c", "a", "b=c"),
        ("a=", "a", ""),
        ("a=b # c", "a", "b # c"),
        ("a\\:b=c", "a:b", "c"),
        ("a=c\\\\d", "a", "c\\d"),
        ("a=c\\td", "a", "c\td"),
        ("a=\\u00e9t\\u00e9", "a", "été"),
        ("a=été", "a", "été"),
        ("a=b,\\\n   c", "a", "b,c"),
        ("a=b\\\\\nd=e", "a", "b\\"),
        ("a=b\\", "a", "b"),
        ("a=b\\\n# not a comment", "a", "b# not a comment"),
    ],
)
def test_the_fine_print_of_properties_is_kept(
    tmp_path: Path, line: str, name: str, value: str
) -> None:
    assert read(tmp_path, line)[name] == value


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("\nhunter2\n", ":2", "is no setting"),
        ("=hunter2", ":1", "is no setting"),
        ("a=1\nb=2\na=3", ":3", "sets a a second time"),
        ("a=1\\\n2\na=3", ":3", "sets a a second time"),
    ],
)
def test_a_line_that_is_wrong_is_named_but_not_quoted(
    tmp_path: Path, text: str, place: str, told: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)

    assert caught.value.name.endswith(f"member.properties{place}")
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_mark_that_windows_editors_begin_a_file_with_is_no_part_of_a_name(
    tmp_path: Path,
) -> None:
    assert read(tmp_path, "\ufeffgroup.id=billing") == {"group.id": "billing"}


def test_a_file_that_is_missing_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.properties cannot be read"):
        read_config_file(tmp_path / "none.properties")
    binary = tmp_path / "binary.properties"
    binary.write_bytes(b"a=\xff\xfe")
    with pytest.raises(ConfigError, match=r"binary\.properties cannot be read"):
        read_config_file(str(binary))


def test_an_option_of_a_command_line_is_split_at_the_first_equals_sign() -> None:
    assert parse_option("sasl.password=a=b") == ("sasl.password", "a=b")


@pytest.mark.parametrize("text", ["max.attempts", "=3", " = 3", ""])
def test_an_option_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="needs name=value"):
        parse_option(text)
