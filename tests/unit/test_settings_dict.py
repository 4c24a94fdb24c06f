"""Is `Settings` the table that the configuration itself goes by?"""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import coop_consumer
from coop_consumer import Config, Settings
from coop_consumer.config import settings_dict
from coop_consumer.config.librdkafka import ALIASES, PASSED
from coop_consumer.config.settings import SETTINGS
from coop_consumer.config.typed_reference import source


def test_the_module_is_up_to_date() -> None:
    path = Path(str(settings_dict.__file__))
    assert path.read_text(encoding="utf-8") == source(), (
        "renew it: python -m coop_consumer.config.typed_reference > "
        "coop_consumer/config/settings_dict.py"
    )


def test_it_has_every_name_that_a_member_takes_and_no_other() -> None:
    names = set(get_type_hints(Settings))
    assert set(SETTINGS) | PASSED <= names
    assert names <= set(SETTINGS) | PASSED | set(ALIASES)
    assert Settings.__required_keys__ == frozenset()


def test_it_is_a_plain_dict_that_a_configuration_is_made_of() -> None:
    settings: Settings = {"bootstrap.servers": "b:9092", "group.id": "g", "on.failure": "park"}
    assert Config.from_dict(settings).on_failure == "park"
    assert "Settings" in coop_consumer.__all__
