"""What becomes of the signals of `coop-consumer run`."""

from __future__ import annotations

import signal
from typing import cast

from coop_consumer.cli.options import Connection
from coop_consumer.cli.reread import Signals
from coop_consumer.config import Config
from coop_consumer.pool import WorkerPool


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


def test_differences_are_told_by_name_whoevers_the_setting_is() -> None:
    common = {"bootstrap.servers": "b:9092", "group.id": "billing"}
    before = Config.from_dict({**common, "workers": 4})
    now = Config.from_dict({**common, "workers": 5, "socket.keepalive.enable": True})
    assert now.differences(before) == ["workers", "socket.keepalive.enable"]
    assert not now.differences(now)
