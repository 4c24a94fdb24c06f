"""Members as manifests and the unit start them, on real processes: who gets in, and who does not.

No cluster and no systemd take part. What a pod mounts is in a folder, and the port is any free one.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import pytest

from coop_consumer.errors import ExitCode
from tests.support.command import Started
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.manifests import Manifest, manifests, mounted
from tests.support.stock import eventually
from tests.support.systemd_unit import start_of_unit

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
MEMBERS = [it for it in manifests() if it.pod and it.containers[0]["args"][1] == "run"]
WORKER = """
from coop_consumer import Worker

class Billing(Worker):
    def process(self, record):
        pass
"""
HTML = "text/html"
BY_PORT_FORWARD = "localhost:9464"
"""The name by which a browser asks behind `kubectl port-forward`."""


def started(it: Manifest, its: Job, folder: Path, token: str) -> Started:
    """Start it, on the group and topic of a job; "": the token stays as the Secret has it."""
    (folder / "billing.py").write_text(WORKER, encoding="utf-8")
    name, *words = mounted(it, folder)
    assert name == "coop-consumer"
    own = {
        "--topics=orders": f"--topics={its.topic}",
        "--group=billing": f"--group={its.group}",
        "--ops=0.0.0.0:9464": "--ops=0.0.0.0:0",
        "--config=group.instance.id=$(POD_NAME)": "--config=group.instance.id=billing-0",
    }
    words = [own.pop(word, word) for word in words]
    assert set(own) <= {"--config=group.instance.id=$(POD_NAME)"}, "of the StatefulSet alone"
    if token:
        [file] = [Path(word.partition("=")[2]) for word in words if "--token-file=" in word]
        file.write_text(f"{token}\n", encoding="utf-8")
    return Started(folder, *words, "--bootstrap", str(its.client["bootstrap.servers"]))


@contextmanager
def at_work(run: Started) -> Iterator[str]:
    """The port at which it answers; it is put away after the block."""
    try:
        line = json.loads(run.wait_for("metrics at http://"))
        yield line["message"].rpartition("/metrics")[0].rpartition(":")[2]
    finally:
        run.put_away()


def answered(
    port: str, path: str, *, form: dict[str, str] | None = None, **headers: str
) -> tuple[int, str, str]:
    """The status, the cookie and the text of an answer, as through a `kubectl port-forward`."""
    given = {"Host": BY_PORT_FORWARD, **headers}
    if form is not None:
        given["Content-Type"] = "application/x-www-form-urlencoded"
    with closing(HTTPConnection("127.0.0.1", int(port), timeout=WAIT_S)) as connection:
        body = None if form is None else urlencode(form)
        connection.request("GET" if form is None else "POST", path, body, given)
        answer = connection.getresponse()
        cookie = answer.getheader("set-cookie", "").partition(";")[0]
        return answer.status, cookie, answer.read().decode()


@pytest.mark.parametrize("it", MEMBERS, ids=str)
def test_a_member_of_a_manifest_lets_probes_in_and_shows_the_rest_to_who_has_the_token(
    it: Manifest, job: MakeJob, tmp_path: Path
) -> None:
    token = secrets.token_hex(32)
    run = started(it, job(), tmp_path, token)
    with at_work(run) as port:
        assert answered(port, "/livez", Host="10.1.2.3:9464")[0] == 200, "as a kubelet asks"
        eventually(lambda: answered(port, "/readyz", Host="10.1.2.3:9464")[0] == 200)

        sent = {"Authorization": f"Bearer {token}"}
        status, _, text = answered(port, "/metrics", **sent)
        assert status == 200
        assert "coop_workers{" in text
        assert answered(port, "/metrics")[0] == 401
        assert answered(port, "/metrics", Authorization="Bearer no-such-token-at-all")[0] == 403
        assert answered(port, "/", **sent)[0] == 200

        status, _, text = answered(port, "/", Accept=HTML)
        assert (status, "<h1>Sign in</h1>" in text) == (401, True)
        form, origin = {"token": token, "next": "/"}, f"http://{BY_PORT_FORWARD}"
        status, cookie, _ = answered(port, "/login", form=form, Origin=origin, Accept=HTML)
        assert status == 303
        status, _, text = answered(port, "/", Cookie=cookie, Accept=HTML)
        assert (status, "The whole group" in text) == (200, True)

        run.process.terminate()
        assert run.end() == ExitCode.OK


def test_the_token_of_the_manifests_must_be_replaced(job: MakeJob, tmp_path: Path) -> None:
    run = started(MEMBERS[0], job(), tmp_path, token="")
    try:
        line = json.loads(run.wait_for("holds no secret of 16 or more"))
        assert line["event"] == "command.failed"
        assert run.end() == ExitCode.USAGE
    finally:
        run.put_away()


def test_a_member_of_the_unit_answers_to_its_host_without_a_token(
    job: MakeJob, tmp_path: Path
) -> None:
    its = job()
    (tmp_path / "billing.py").write_text(WORKER, encoding="utf-8")
    (tmp_path / "billing.properties").write_text("workers=3\n", encoding="utf-8")
    own = {
        "orders": its.topic,
        "billing": its.group,
        "127.0.0.1:9464": "127.0.0.1:0",
        "/etc/coop-consumer/billing.properties": str(tmp_path / "billing.properties"),
        "state.dir=/var/lib/coop-consumer/billing": f"state.dir={tmp_path}",
    }
    words = [own.pop(word, word) for word in start_of_unit()[1:]]
    assert not own
    run = Started(tmp_path, *words, "--bootstrap", str(its.client["bootstrap.servers"]))
    with at_work(run) as port:
        eventually(lambda: answered(port, "/readyz")[0] == 200)
        status, _, text = answered(port, "/metrics")
        assert (status, "coop_workers{" in text) == (200, True)
        assert answered(port, "/")[0] == 200
        run.process.terminate()
        assert run.end() == ExitCode.OK
