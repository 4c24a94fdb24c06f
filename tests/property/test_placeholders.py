"""Whatever a value is, it can be written, and what a placeholder holds is taken as it is."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from coop_consumer.config import placeholders
from coop_consumer.config.hiding import without
from coop_consumer.config.placeholders import resolve
from coop_consumer.errors import ConfigError

texts = st.text(st.sampled_from("$${}{}abenv:file./ "), max_size=40) | st.text(max_size=40)


def found(text: str, variables: Mapping[str, str]) -> object:
    looks = {"env": variables.__getitem__, "file": variables.__getitem__}
    with patch.object(placeholders, "LOOK_UPS", looks):
        return resolve({"name": text}).settings["name"]


@given(text=texts)
def test_every_text_can_be_written_with_the_escape(text: str) -> None:
    assert found(text.replace("${", "$${"), {}) == text


@given(before=texts, value=texts, after=texts)
def test_a_value_is_taken_as_it_is_between_any_texts(before: str, value: str, after: str) -> None:
    # A dollar sign before a placeholder would escape it.
    written = before.replace("${", "$${").rstrip("$") + "${env:x}" + after.replace("${", "$${")
    assert found(written, {"x": value}) == before.rstrip("$") + value + after


@given(text=texts)
def test_no_text_raises_anything_but_an_error_about_its_setting(text: str) -> None:
    with suppress(ConfigError):
        assert isinstance(resolve({"name": text}).settings["name"], str)


letters = st.characters(exclude_characters="*")


@given(text=st.text(letters, max_size=9), value=st.text(letters, min_size=4, max_size=20))
def test_no_hidden_value_is_left_in_a_text(text: str, value: str) -> None:
    assert value not in without(f"{text}{value}{text}", [value])
