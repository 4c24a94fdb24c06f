"""What a file tells probes: whole at any moment, and no answer once nobody writes it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from time import time
from typing import Any

import pytest
from click.testing import CliRunner, Result

from coop_consumer.cli.app import app
from coop_consumer.cli.supervisor import Supervisor, option_of
from coop_consumer.errors import ConfigError, ExitCode
from coop_consumer.ops.health import Diagnosis, NotReady, Reason, restarting
from coop_consumer.ops.health_file import HealthFile, asked, written

NO = Diagnosis((Reason(NotReady.DRAINING, "draining"),))
YES = Diagnosis()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "health.json"


def reason(text: str) -> str:
    found: str = json.loads(text)["reasons"][0]["reason"]
    return found


def test_a_file_answers_each_probe_with_its_own_diagnosis(path: Path) -> None:
    written(path, YES, NO)
    live, ready = asked(path, "live", time()), asked(path, "ready", time())
    assert (live.ok, json.loads(live.text)) == (True, {"ok": True, "reasons": []})
    assert (ready.ok, reason(ready.text)) == (False, "draining")
    assert [it.name for it in path.parent.iterdir()] == ["health.json"]


@pytest.mark.parametrize("off_s", [11.0, -11.0])
def test_a_file_that_nobody_writes_any_more_answers_no(path: Path, off_s: float) -> None:
    written(path, YES, YES)
    answer = asked(path, "live", time() + off_s)
    assert (answer.ok, reason(answer.text)) == (False, "frozen")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"at": 1}', '{"at": "x", "live": 1}', "7"])
def test_a_file_of_somebody_else_answers_no(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    answer = asked(path, "live", time())
    assert (answer.ok, reason(answer.text)) == (False, "unknown")


def test_a_file_that_is_not_there_answers_no_and_says_so(path: Path) -> None:
    answer = asked(path, "ready", time())
    assert (answer.ok, reason(answer.text)) == (False, "unknown")
    assert "No such file" in answer.text


def test_the_writer_writes_at_once_and_at_its_end(path: Path) -> None:
    told = [(YES, NO)]
    file = HealthFile(path, lambda: told[-1])
    file.start()
    assert not asked(path, "ready", time()).ok
    told.append((YES, YES))
    file.end()
    assert asked(path, "ready", time()).ok


def test_a_path_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    file = HealthFile(tmp_path / "no" / "health.json", lambda: (YES, YES))
    with pytest.raises(ConfigError, match=r"^--health-file=.* cannot be written: No such file"):
        file.start()


# -- the parent ------------------------------------------------------------------------------------


def test_the_parent_finds_an_option_wherever_it_stands() -> None:
    assert option_of(["run", "m:W", "--health-file", "a"], "--health-file") == "a"
    assert option_of(["run", "--health-file=a", "--health-file=b"], "--health-file") == "b"
    assert option_of(["run", "--health-file"], "--health-file") is None
    assert option_of(["run"], "--health-file") is None


def test_a_parent_without_its_worker_process_is_alive_and_not_ready(path: Path) -> None:
    with Supervisor(path) as parent:
        assert parent._pause(0.01) == 0
    assert asked(path, "live", time()).ok
    assert json.loads(asked(path, "ready", time()).text) == restarting(0.0).as_json()


# -- the command -----------------------------------------------------------------------------------


def probe(*words: str) -> Result:
    return CliRunner().invoke(app, ["probe", *words])


def test_the_command_prints_what_the_file_answers_and_ends_by_it(path: Path) -> None:
    written(path, YES, NO)
    live = probe("live", "--health-file", str(path))
    ready = probe("ready", "--health-file", str(path))
    assert (live.exit_code, json.loads(live.stdout)["ok"]) == (ExitCode.OK, True)
    assert (ready.exit_code, reason(ready.stdout)) == (ExitCode.UNAVAILABLE, "draining")


class Answers(BaseHTTPRequestHandler):
    """A server that is alive and not ready."""

    def do_GET(self) -> None:
        found = {"/livez": (200, YES), "/readyz": (503, NO)}[self.path]
        body = json.dumps(found[1].as_json()).encode()
        self.send_response(found[0])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[str]:
    """The address of such a server."""
    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_command_asks_a_server_where_it_is_told_an_address() -> None:
    with serving() as address:
        live, ready = probe("live", "--address", address), probe("ready", "--address", address)
    assert (live.exit_code, json.loads(live.stdout)["ok"]) == (ExitCode.OK, True)
    assert (ready.exit_code, reason(ready.stdout)) == (ExitCode.UNAVAILABLE, "draining")


def test_a_server_that_does_not_answer_is_no(path: Path) -> None:
    found = probe("live", "--address", "127.0.0.1:1")
    assert (found.exit_code, reason(found.stdout)) == (ExitCode.UNAVAILABLE, "unknown")
    assert "127.0.0.1:1 does not answer" in found.stdout
    assert "`coop-consumer run --ops 127.0.0.1:1`" in found.stdout


@pytest.mark.parametrize("address", ["nowhere", "host:", "host:x", "host:70000", "host:²", "::1"])
def test_an_address_that_is_none_says_how_to_write_one(address: str) -> None:
    found = probe("live", "--address", address)
    assert found.exit_code == ExitCode.USAGE
    assert "is no HOST:PORT" in found.stderr


def test_a_probe_asks_a_server_or_a_file() -> None:
    found = probe("live", "--address", "h:1", "--health-file", "f")
    assert found.exit_code == ExitCode.USAGE
    assert probe("alive").exit_code == ExitCode.USAGE
