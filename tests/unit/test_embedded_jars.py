"""The cache of the broker's jars, with an invented repository instead of the network."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from coop_consumer.broker.errors import JarsUnavailableError
from coop_consumer.broker.ivy import IvyError, fetch_with_ivy, trust_options
from coop_consumer.broker.jars import MANIFEST, ensure_jars, fetch_by_ivy
from coop_consumer.broker.java import Java
from coop_consumer.errors import CoopConsumerError, ExitCode, OutOfThreadsError, exit_code_of

VERSION = "4.3.1"
CONTENT = {"kafka_2.13-4.3.1.jar": b"kafka", "slf4j-simple-1.7.36.jar": b"slf4j"}


class Repository:
    """Brings two small jars, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def fetch(self, version: str, directory: Path) -> None:
        assert version == VERSION
        self.asked += 1
        for name, content in CONTENT.items():
            (directory / name).write_bytes(content)


def jars_in(directory: Path) -> dict[str, bytes]:
    return {jar.name: jar.read_bytes() for jar in directory.glob("*.jar")}


def test_jars_are_fetched_once(tmp_path: Path) -> None:
    repository = Repository()
    first = ensure_jars(VERSION, cache_dir=tmp_path, fetch=repository.fetch)
    second = ensure_jars(VERSION, cache_dir=tmp_path, fetch=repository.fetch)
    assert first == second == tmp_path / "kafka-4.3.1"
    assert jars_in(first) == CONTENT
    assert repository.asked == 1


def change(directory: Path) -> None:
    (directory / "kafka_2.13-4.3.1.jar").write_bytes(b"kafkb")


def remove(directory: Path) -> None:
    (directory / "slf4j-simple-1.7.36.jar").unlink()


def add(directory: Path) -> None:
    (directory / "stranger.jar").write_bytes(b"on the class path too")


def cut_manifest(directory: Path) -> None:
    (directory / MANIFEST).write_text('{"kafka_2.13-4.3')


def list_in_manifest(directory: Path) -> None:
    (directory / MANIFEST).write_text("[]")


@pytest.mark.parametrize("harm", [change, remove, add, cut_manifest, list_in_manifest])
def test_damaged_cache_is_noticed_and_fetched_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None]
) -> None:
    repository = Repository()
    directory = ensure_jars(VERSION, cache_dir=tmp_path, fetch=repository.fetch)
    harm(directory)
    with caplog.at_level(logging.WARNING):
        ensure_jars(VERSION, cache_dir=tmp_path, fetch=repository.fetch)
    assert jars_in(directory) == CONTENT
    assert repository.asked == 2
    assert "fetching the jars again" in caplog.text


def test_failed_fetch_leaves_nothing_that_looks_complete(tmp_path: Path) -> None:
    def fail_half_way(version: str, directory: Path) -> None:
        (directory / "kafka_2.13-4.3.1.jar").write_bytes(b"kafka")
        raise IvyError("connection reset")

    with pytest.raises(JarsUnavailableError, match="connection reset"):
        ensure_jars(VERSION, cache_dir=tmp_path, fetch=fail_half_way)
    assert [path.name for path in tmp_path.iterdir()] == ["kafka-4.3.1.lock"]


def test_cache_that_cannot_be_made_is_told_with_the_way_to_name_another(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JarsUnavailableError, match=r"file.*COOP_CACHE_DIR"):
        ensure_jars(VERSION, cache_dir=tmp_path / "file", fetch=Repository().fetch)


def test_cache_that_is_full_is_told_with_the_way_to_name_another(tmp_path: Path) -> None:
    def fill_the_disk(version: str, directory: Path) -> None:
        raise IvyError("java.io.IOException: No space left on device")

    with pytest.raises(JarsUnavailableError, match=r"No space left.*COOP_CACHE_DIR") as caught:
        ensure_jars(VERSION, cache_dir=tmp_path, fetch=fill_the_disk)
    assert exit_code_of(caught.value) is ExitCode.DISK_FULL


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, ExitCode.DISK_FULL), (errno.EDQUOT, ExitCode.DISK_FULL),
     (errno.EMFILE, ExitCode.FILES), (errno.EACCES, ExitCode.UNAVAILABLE)],
)  # fmt: skip
def test_a_cache_that_cannot_be_written_ends_with_the_code_of_its_reason(
    tmp_path: Path, number: int, code: ExitCode
) -> None:
    def refuse(version: str, directory: Path) -> None:
        raise OSError(number, "no")

    with pytest.raises(CoopConsumerError) as caught:
        ensure_jars(VERSION, cache_dir=tmp_path, fetch=refuse)
    assert exit_code_of(caught.value) is code


def test_ivy_that_gets_no_thread_does_not_blame_the_network(tmp_path: Path) -> None:
    short = tmp_path / "java"
    short.write_text(
        "#!/bin/sh\necho 'Cannot create VM thread. Out of system resources.'; exit 1\n"
    )
    short.chmod(0o755)
    with pytest.raises(OutOfThreadsError, match="VM thread"):
        fetch_with_ivy(VERSION, tmp_path, Java(short, 25), tmp_path / "ivy.jar")


def test_of_two_at_once_one_fetches_and_the_other_waits(tmp_path: Path) -> None:
    repository = Repository()
    both_ready = Barrier(2)

    def ensure() -> Path:
        both_ready.wait()
        return ensure_jars(VERSION, cache_dir=tmp_path, fetch=repository.fetch)

    with ThreadPoolExecutor(2) as pool:
        directories = [pool.submit(ensure) for _ in range(2)]
    assert {jars_in(done.result()) == CONTENT for done in directories} == {True}
    assert repository.asked == 1


def test_without_pyspark_the_message_names_the_extra(tmp_path: Path) -> None:
    with pytest.raises(JarsUnavailableError, match=r"pip install 'coop-consumer\[broker\]'"):
        ensure_jars(VERSION, cache_dir=tmp_path, fetch=partial(fetch_by_ivy, ivy=None))


JAVA_THAT_TRUSTS_NOBODY = """\
#!/bin/sh
case "$1" in
  -Djavax.net.ssl.trustStore=*) ;;
  *) echo "module not found: org.apache.kafka#kafka_2.13;4.3.1"; exit 1 ;;
esac
: > {directory}/kafka_2.13-4.3.1.jar
"""


@pytest.fixture
def java_that_trusts_nobody(tmp_path: Path) -> Java:
    """A Java that finds jars only with a trust store named; they land in `tmp_path`."""
    executable = tmp_path / "java"
    executable.write_text(JAVA_THAT_TRUSTS_NOBODY.format(directory=tmp_path))
    executable.chmod(0o755)
    return Java(executable, 25)


def test_java_with_a_foreign_trust_store_is_told_the_systems(
    tmp_path: Path,
    java_that_trusts_nobody: Java,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    system_store = tmp_path / "cacerts"
    system_store.touch()
    monkeypatch.setattr("coop_consumer.broker.ivy.TRUST_STORES", (system_store,))
    fetch_with_ivy(VERSION, tmp_path, java_that_trusts_nobody, tmp_path / "ivy.jar")
    assert (tmp_path / "kafka_2.13-4.3.1.jar").exists()
    assert f"trying again with -Djavax.net.ssl.trustStore={system_store}" in caplog.text


def test_no_trust_store_is_tried_against_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full = tmp_path / "java"
    full.write_text("#!/bin/sh\necho 'java.io.IOException: No space left on device'; exit 1\n")
    full.chmod(0o755)
    monkeypatch.setattr("coop_consumer.broker.ivy.TRUST_STORES", (full,))
    with pytest.raises(IvyError, match="No space left on device"):
        fetch_with_ivy(VERSION, tmp_path, Java(full, 25), tmp_path / "ivy.jar")
    assert "trying again" not in caplog.text


def test_what_ivy_said_is_told_when_no_try_succeeds(
    tmp_path: Path, java_that_trusts_nobody: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coop_consumer.broker.ivy.TRUST_STORES", ())
    with pytest.raises(IvyError, match=r"module not found: org\.apache\.kafka"):
        fetch_with_ivy(VERSION, tmp_path, java_that_trusts_nobody, tmp_path / "ivy.jar")


def test_only_trust_stores_that_exist_are_tried(tmp_path: Path) -> None:
    there, missing = tmp_path / "cacerts", tmp_path / "missing"
    there.touch()
    tries = list(trust_options((missing, there)))
    assert tries == [(), (f"-Djavax.net.ssl.trustStore={there}",)]
