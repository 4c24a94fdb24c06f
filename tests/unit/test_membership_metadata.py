"""What others store with a committed offset, read as it was meant."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from coop_consumer.kafka.membership import metadata_of


@pytest.mark.parametrize(
    ("stored", "meant"), [("coop:2\0", "coop:2"), ("coop:2", "coop:2"), (None, ""), ("", "")]
)
def test_the_final_nul_of_a_c_string_is_no_part_of_a_tag(stored: str | None, meant: str) -> None:
    assert metadata_of(SimpleNamespace(metadata=stored)) == meant
