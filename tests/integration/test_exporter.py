"""`coop-consumer exporter` on a real broker: groups with members, without, missing and plain."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.broker import EmbeddedBroker
from coop_consumer.errors import ExitCode
from tests.integration.exporting import ROOT, command, exporting
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.pools import refuse
from tests.support.rights import READ_GROUP, READ_PROGRESS, READ_TOPIC, grant
from tests.support.stock import eventually
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]


def test_a_group_is_seen_with_members_and_without(job: MakeJob) -> None:
    its = job(2, **{"max.attempts": 1})
    its.produce(["a", "b", "c", "bad"])
    with exporting(its, its.group, "missing-group") as see:
        eventually(lambda: see().of("coop_group_up", group="missing-group") == [0.0])
        with its.running(handler=refuse("bad")):
            eventually(lambda: sum(see().of("coop_group_parked_records")) == 1)
            eventually(lambda: see().of("coop_group_members", state="working") == [1.0])
            found = see()
            assert sum(found.of("coop_group_end_offset")) == 4
            assert sum(found.of("coop_group_records_left")) == 1
            assert found.of("coop_group_unowned_share") == [0.0]
            assert found.of("coop_group_wanted_members")[0] >= 1
        eventually(lambda: see().of("coop_group_members", state="working") == [0.0])
        found = see()
        assert sum(found.of("coop_group_records_left")) == 1
        assert sum(found.of("coop_group_parked_records")) == 1
        assert found.of("coop_group_unowned_share") == [1.0]
        assert found.of("coop_group_up", group="missing-group") == [0.0]
        assert not any("bad" in place for place in found.places)


def test_a_plain_group_is_seen_too(job: MakeJob) -> None:
    its = job(1)
    its.produce(["a", "b", "c"])
    its.plain_visit(2)
    with exporting(its, its.group) as see:
        eventually(lambda: see().of("coop_group_up") == [1.0])
        found = see()
        assert found.of("coop_group_lag") == [1.0]
        assert found.of("coop_group_committed_offset") == [2.0]
        # Nobody says since when the record stands: the exporter remembers it.
        eventually(lambda: sum(see().of("coop_group_blocked_seconds")) > 0.0)


def test_a_group_of_2000_partitions_is_seen_whole(job: MakeJob) -> None:
    its = job(2_000)
    its.produce(["a", "b", "c"], 0)
    its.plain_visit(2)
    with exporting(its, its.group) as see:
        eventually(lambda: see().of("coop_group_up") == [1.0])
        found = see()
    ends = found.of("coop_group_end_offset")
    assert (len(ends), sum(ends)) == (2_000, 3)
    assert sum(found.of("coop_group_records_left")) == 1


def test_a_group_that_the_user_may_not_see_is_down_and_the_log_says_why(
    secured: EmbeddedBroker, root: AdminClient, group_id: str, tmp_path: Path
) -> None:
    create_topic(root, group_id)
    seen = Job(secured.client_config("root"), root, f"{group_id}-seen", group_id)
    seen.produce(["a", "b"])
    seen.plain_visit(1)
    grant(root, seen, [READ_TOPIC, READ_GROUP, READ_PROGRESS])
    login = tmp_path / "client.properties"
    settings = secured.client_config("ann")
    login.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    hidden = f"{group_id}-hidden"
    with exporting(seen, "--config-file", str(login), hidden, seen.group) as see:
        eventually(lambda: see().of("coop_group_up", group=hidden) == [0.0])
        eventually(lambda: see().of("coop_group_up", group=seen.group) == [1.0])
        why = f"group {hidden} cannot be seen: group {hidden}: user ann may not describe"
        eventually(lambda: any(why in line for line in see.log))
        assert sum(see().of("coop_group_lag", group=seen.group)) == 1
        assert not any(settings["sasl.password"] in line for line in see.log)


def test_no_broker_is_no_end(job: MakeJob) -> None:
    its = job(1)
    away = Job({"bootstrap.servers": "127.0.0.1:1"}, its.admin, its.group, its.topic)
    with exporting(away, its.group) as see:
        eventually(lambda: see().of("coop_group_up") == [0.0])


def test_an_address_in_use_is_told_with_its_option(job: MakeJob) -> None:
    its = job(1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = command(its, its.group)
        words[words.index("127.0.0.1:0")] = address
        ended = subprocess.run(
            words, capture_output=True, text=True, timeout=WAIT_S, check=False, cwd=ROOT
        )
    assert ended.returncode == ExitCode.USAGE
    assert f"--address={address} is in use" in ended.stderr
