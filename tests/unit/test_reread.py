"""What becomes of the signals of `coop-consumer run`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import cast

import pytest

from coop_consumer.cli.options import Connection
from coop_consumer.cli.reread import Signals
from coop_consumer.config import Config
from coop_consumer.pool import WorkerPool
from tests.support.stock import eventually


class Told:
    """A pool that notes which signals it is told of."""

    def __init__(self) -> None:
        self.signals: list[tuple[int, bool]] = []

    def signalled(self, number: int, *, passed_on: bool = False) -> None:
        self.signals.append((number, passed_on))


def test_without_a_file_of_settings_a_sighup_is_an_order_to_end() -> None:
    pool, connection = Told(), Connection(None, (("bootstrap.servers", "b:9092"),), None)
    config = connection.config("billing")
    signals = Signals(cast("WorkerPool", pool), connection, config, "thread", None)
    signals.come(signal.SIGHUP, passed_on=True)
    assert pool.signals == [(signal.SIGHUP, True)]


def test_a_file_of_settings_lets_only_sighup_pass_by_the_pool() -> None:
    pool, connection = Told(), Connection("no.such.file", (), None)
    config = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing"})
    signals = Signals(cast("WorkerPool", pool), connection, config, "thread", None)
    signals.come(signal.SIGTERM)
    signals.come(signal.SIGHUP)  # which finds no file, and says so in the log
    assert pool.signals == [(signal.SIGTERM, False)]


class Resized(Told):
    """A pool that can be resized."""

    def __init__(self) -> None:
        super().__init__()
        self.workers = 2

    def resize(self, workers: int) -> None:
        self.workers = workers


def test_the_file_that_the_environment_names_is_read_again_with_its_placeholders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.properties"
    file.write_text("bootstrap.servers=b:9092\nworkers=${env:T_WORKERS}\n", encoding="utf-8")
    monkeypatch.setenv("T_WORKERS", "2")
    connection = Connection(str(file), (), None, is_file_from_environment=True)
    config, pool = connection.config("billing"), Resized()
    signals = Signals(cast("WorkerPool", pool), connection, config, "thread", None)
    monkeypatch.setenv("T_WORKERS", "5")
    signals.come(signal.SIGHUP)
    eventually(lambda: pool.workers == 5)
    monkeypatch.delenv("T_WORKERS")
    signals.come(signal.SIGHUP)
    eventually(lambda: "nothing has changed: workers=${env:T_WORKERS}: there is" in caplog.text)
    assert (pool.workers, pool.signals) == (5, [])


def test_differences_are_told_by_name_whoevers_the_setting_is() -> None:
    common = {"bootstrap.servers": "b:9092", "group.id": "billing"}
    before = Config.from_dict({**common, "workers": 4})
    now = Config.from_dict({**common, "workers": 5, "socket.keepalive.enable": True})
    assert now.differences(before) == ["workers", "socket.keepalive.enable"]
    assert not now.differences(now)
