"""`coop-consumer release` asks before it releases, and says how to answer where nobody can."""

from __future__ import annotations

from io import BytesIO
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from coop_consumer.cli import release as command
from coop_consumer.cli.app import app
from coop_consumer.errors import ExitCode, exit_code_of

pytestmark = pytest.mark.usefixtures("logging_as_it_was")


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The releases of a group in which one member waits for another."""
    found: list[object] = []
    waits = SimpleNamespace(found=[1], lines=["orders-1: new waits for old"], is_once=False)

    class Inspector:
        def __init__(self, config: object) -> None:
            del config

        def __enter__(self) -> object:
            return self

        def __exit__(self, *_: object) -> None:
            return

    monkeypatch.setattr(command, "Inspector", Inspector)
    monkeypatch.setattr(command, "waits_of", lambda *_: waits)
    monkeypatch.setattr(command, "release_all", lambda _, them: found.append(them))
    return found


def release(*more: str, answer: str | BytesIO = "") -> Result:
    words = ("release", "my group", *more, "--bootstrap", "b:9092")
    return CliRunner().invoke(app, words, input=answer)


def test_yes_releases_and_the_next_command_is_ready_to_paste(released: list[object]) -> None:
    for told in (release(answer="y\n"), release("--yes")):
        assert told.exit_code == ExitCode.OK
        assert "`coop-consumer status 'my group' --bootstrap b:9092` shows who" in told.stdout
    assert len(released) == 2


def test_no_releases_nothing_and_is_no_failure(released: list[object]) -> None:
    told = release(answer="n\n")
    assert told.exit_code == ExitCode.OK
    assert "Nothing was released." in told.stdout
    assert released == []


def test_without_anybody_who_answers_the_option_is_named(released: list[object]) -> None:
    told = release()
    assert told.exit_code == ExitCode.USAGE
    assert "Nothing was released" in told.stderr
    assert "--yes" in told.stderr
    assert "Aborted" not in told.stderr
    assert released == []


class Interrupted(BytesIO):
    """A terminal at which somebody presses Ctrl-C."""

    def read1(self, size: int | None = -1, /) -> bytes:
        del size
        raise KeyboardInterrupt


def test_ctrl_c_at_the_question_ends_it_as_everywhere(released: list[object]) -> None:
    told = release(answer=Interrupted())
    assert told.exit_code == exit_code_of(KeyboardInterrupt())
    assert "interrupted" in told.stderr
    assert released == []
