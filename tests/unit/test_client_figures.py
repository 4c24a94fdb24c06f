"""librdkafka's statistics: fifteen figures a client, named as the table has them."""

from __future__ import annotations

import json
import logging

import pytest

from coop_consumer.config import Config
from coop_consumer.core.events import ClientFigures
from coop_consumer.errors import ConfigError
from coop_consumer.kafka.client_figures import figures_of, with_figures
from coop_consumer.ops.metric import MetricSection
from coop_consumer.ops.table import rows_in

TOLD = {
    "tx": 10,
    "rx": 9,
    "tx_bytes": 1_000,
    "rx_bytes": 900,
    "txmsgs": 3,
    "rxmsgs": 4,
    "msg_cnt": 2,
    "brokers": {
        "b:9092/bootstrap": {"nodeid": -1, "state": "UP", "connects": 1, "disconnects": 1},
        "b:9092/1": {
            "nodeid": 1,
            "state": "UP",
            "txerrs": 1,
            "rxerrs": 2,
            "txretries": 3,
            "req_timeouts": 4,
            "connects": 5,
            "disconnects": 6,
            "rtt": {"p99": 1_500},
        },
        "b:9093/2": {"nodeid": 2, "state": "CONNECT", "rtt": {"p99": 500}},
    },
    "topics": {"orders": {"partitions": {"0": {"fetchq_cnt": 7}, "1": {"fetchq_cnt": 8}}}},
}


def config(**more: object) -> Config:
    return Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing", **more})


def test_each_figure_is_a_row_and_each_row_a_figure() -> None:
    rows = [row.name.removeprefix("coop_client_") for row in rows_in(MetricSection.CLIENTS)]

    assert list(figures_of("{}")) == rows
    assert len(rows) <= 15


def test_figures_are_sums_over_brokers_and_partitions() -> None:
    found = figures_of(json.dumps(TOLD))

    assert found["requests_total"] == 10
    assert found["request_errors_total"] == 3
    assert found["connects_total"] == 6
    assert found["disconnects_total"] == 7
    assert found["prefetched_records"] == 15
    assert found["brokers_up"] == 1
    assert found["round_trip_p99_seconds"] == pytest.approx(0.0015)


def test_a_client_says_nothing_unless_it_is_asked_to() -> None:
    assert with_figures(config(), {"a": 1}, "fetch", print) == {"a": 1}
    asked_0 = config(**{"statistics.interval.ms": 0})
    assert with_figures(asked_0, {"a": 1}, "fetch", print) == {"a": 1}


def test_a_client_that_is_asked_tells_by_its_role() -> None:
    told: list[ClientFigures] = []
    asked = config(**{"statistics.interval.ms": 5_000})
    settings = with_figures(asked, {"a": 1}, "fetch", told.append)
    settings["stats_cb"](json.dumps(TOLD))

    assert settings["statistics.interval.ms"] == 5_000
    [figures] = told
    assert figures.role == "fetch"
    assert figures.figures["responses_total"] == 9


@pytest.mark.parametrize("text", ["", "[]", '{"brokers": 7}', '{"tx": "many"}'])
def test_statistics_of_another_form_end_no_thread(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[ClientFigures] = []
    asked = config(**{"statistics.interval.ms": 5_000})
    with caplog.at_level(logging.INFO):
        with_figures(asked, {}, "fetch", told.append)["stats_cb"](text)

    assert told == []
    assert "cannot be read" in caplog.text


def test_too_often_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"statistics\.interval\.ms"):
        config(**{"statistics.interval.ms": 10})


def test_no_client_but_those_that_are_shown_has_the_setting() -> None:
    asked = config(**{"statistics.interval.ms": 5_000})

    for settings in (asked.data_plane(), asked.producer(), asked.admin(), asked.progress_reader()):
        assert "statistics.interval.ms" not in settings
