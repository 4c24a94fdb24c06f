"""Any terminal can show the output of a command, and no terminal obeys it."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coop_consumer.cli.log import StderrHandler
from coop_consumer.cli.output import echo, let_streams_escape
from coop_consumer.cli.terminal import console
from coop_consumer.errors import ExitCode


def stream(monkeypatch: pytest.MonkeyPatch, name: str, encoding: str) -> io.BytesIO:
    written = io.BytesIO()
    page = io.TextIOWrapper(written, encoding=encoding, errors="strict", write_through=True)
    monkeypatch.setattr(sys, name, page)
    return written


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", rb"\u043a\xe9 \x1b[2J \x9b \udcff"),
        ("latin-1", rb"\u043a" + b"\xe9" + rb" \x1b[2J \x9b \udcff"),
        ("utf-8", "кé".encode() + rb" \x1b[2J \x9b \udcff"),
    ],
)
@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_any_text_is_printed_in_any_encoding(
    monkeypatch: pytest.MonkeyPatch, name: str, encoding: str, shown: bytes
) -> None:
    written = stream(monkeypatch, name, encoding)
    echo("кé \x1b[2J \x9b \udcff\n\tand more", err=name == "stderr")
    assert written.getvalue() == shown + b"\n\tand more\n"


def test_a_log_line_is_printed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    written = stream(monkeypatch, "stderr", "latin-1")
    line = logging.LogRecord("any", logging.ERROR, __file__, 1, "к %s", ("\x1b[2J",), None)
    StderrHandler().emit(line)
    assert written.getvalue() == rb"\u043a \x1b[2J" + b"\n"


def test_what_others_write_to_the_streams_is_escaped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = stream(monkeypatch, "stdout", "ascii"), stream(monkeypatch, "stderr", "ascii")
    let_streams_escape()
    sys.stdout.write("▕к▏")
    sys.stderr.write("к")
    assert out.getvalue() == rb"\u2595\u043a\u258f"
    assert err.getvalue() == rb"\u043a"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_command_ends_with_its_message_whatever_the_encoding(
    tmp_path: Path, encoding: str
) -> None:
    settings = tmp_path / "ключи.properties"
    settings.write_text("bootstrap.servers=b:9092\nключ=1\n", encoding="utf-8")
    told = subprocess.run(
        [sys.executable, "-m", "coop_consumer.cli", "status", "g", "--config-file", str(settings)],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert told.returncode == 2
    assert rb"\u043a\u043b\u044e\u0447 is unknown" in told.stderr
    assert b"Traceback" not in told.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("command", ["--help", "status --help", "--version", "status g"])
def test_what_cannot_be_printed_for_want_of_room_ends_with_its_code(command: str) -> None:
    line = [sys.executable, "-m", "coop_consumer.cli", *command.split()]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ended = subprocess.run(line, stdout=full, stderr=full, check=False)
    assert ended.returncode == ExitCode.DISK_FULL


@pytest.mark.parametrize(
    ("columns", "width"), [("0", 80), ("1", 80), ("19", 80), ("20", 20), ("132", 132)]
)
def test_a_width_in_which_nothing_can_be_read_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert console().width == width


def test_a_command_whose_reader_has_gone_ends_quietly_as_by_the_signal() -> None:
    """As with `| head`. Exit code 1 would say that a promise was broken."""
    gone, output = os.pipe()
    os.close(gone)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "coop_consumer.cli", "broker", "status", "--name", "none"],
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(output)
    assert (ended.returncode, ended.stderr) == (141, b"")


class Gone(io.StringIO):
    """A stream whose reader has gone."""

    def write(self, _: str) -> int:
        raise BrokenPipeError


def test_a_table_whose_reader_has_gone_is_told_to_whoever_ends_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):
        console().print("orders")
