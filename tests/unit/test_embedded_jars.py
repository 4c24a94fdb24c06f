"""The cache of the broker's jars, with an invented repository instead of Maven Central."""

from __future__ import annotations

import errno
import hashlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Thread

import pytest

from coop_consumer.broker import maven
from coop_consumer.broker.errors import JarsUnavailableError
from coop_consumer.broker.jars import ensure_jars
from coop_consumer.broker.maven import REPOSITORY_VARIABLE, MavenRepository
from coop_consumer.broker.pinned import KAFKA_VERSION, PinnedJar, pinned_jars
from coop_consumer.errors import ConfigError, CoopConsumerError, ExitCode, exit_code_of

KAFKA = "org/apache/kafka/kafka_2.13/1/kafka_2.13-1.jar"
FILES = {KAFKA: b"kafka", "org/slf4j/slf4j-simple/2/slf4j-simple-2.jar": b"slf4j"}
JARS = [PinnedJar(path, hashlib.sha256(it).hexdigest()) for path, it in FILES.items()]
CONTENT = {jar.name: FILES[jar.path] for jar in JARS}


class MirrorServer(ThreadingHTTPServer):
    """A repository on the loopback address.

    Attributes:
        files: What it has, by path.
        refusals: By path: the codes of HTTP that it answers first.
        asked: The paths that it was asked for, in their order.
        logins: The header of each question.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), MirrorAnswer)
        self.files = dict(FILES)
        self.refusals: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.logins: set[str] = set()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_port}/maven"


class MirrorAnswer(BaseHTTPRequestHandler):
    server: MirrorServer

    def do_GET(self) -> None:
        path = self.path.removeprefix("/maven/")
        self.server.asked.append(path)
        self.server.logins.add(self.headers.get("Authorization", ""))
        refusals = self.server.refusals.get(path)
        content = self.server.files.get(path)
        if refusals:
            self.send_error(refusals.pop(0))
        elif content is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base's name
        """Say nothing."""


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[MirrorServer]:
    """The repository from which jars are fetched here; it pauses before no second try."""
    with MirrorServer() as server:
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        monkeypatch.setenv(REPOSITORY_VARIABLE, f"http://{server.place}/")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(maven, "PAUSE_S", 0)
        yield server
        server.shutdown()
        serving.join()


def ensured(cache: Path) -> Path:
    return ensure_jars(cache_dir=cache, jars=JARS)


def jars_in(directory: Path) -> dict[str, bytes]:
    return {jar.name: jar.read_bytes() for jar in directory.glob("*.jar")}


# -- the list --------------------------------------------------------------------------------------


def test_the_list_has_kafka_its_logging_and_a_digest_for_each_jar() -> None:
    jars = pinned_jars()
    names = [jar.name for jar in jars]
    assert f"kafka_2.13-{KAFKA_VERSION}.jar" in names
    assert [name for name in names if name.startswith("slf4j-simple-")]
    assert len(set(names)) == len(names) > 40
    for jar in jars:
        *group, artifact, version, name = jar.path.split("/")
        assert group
        assert name == f"{artifact}-{version}.jar"
        assert len(bytes.fromhex(jar.sha256)) == 32


# -- the cache -------------------------------------------------------------------------------------


def test_jars_are_fetched_once(tmp_path: Path, mirror: MirrorServer) -> None:
    first, second = ensured(tmp_path), ensured(tmp_path)
    assert first == second == tmp_path / f"kafka-{KAFKA_VERSION}"
    assert jars_in(first) == CONTENT
    assert sorted(mirror.asked) == sorted(FILES)


def change(directory: Path) -> None:
    (directory / JARS[0].name).write_bytes(b"kafkb")


def remove(directory: Path) -> None:
    (directory / JARS[1].name).unlink()


def add(directory: Path) -> None:
    (directory / "stranger.jar").write_bytes(b"on the class path too")


@pytest.mark.parametrize("harm", [change, remove, add])
def test_damaged_cache_is_noticed_and_fetched_again(
    tmp_path: Path,
    mirror: MirrorServer,
    caplog: pytest.LogCaptureFixture,
    harm: Callable[[Path], None],
) -> None:
    directory = ensured(tmp_path)
    harm(directory)
    with caplog.at_level(logging.WARNING):
        ensured(tmp_path)
    assert jars_in(directory) == CONTENT
    assert len(mirror.asked) == 2 * len(FILES)
    assert "fetching the jars again" in caplog.text


def test_of_two_at_once_one_fetches_and_the_other_waits(
    tmp_path: Path, mirror: MirrorServer
) -> None:
    both_ready = Barrier(2)

    def ensure() -> Path:
        both_ready.wait()
        return ensured(tmp_path)

    with ThreadPoolExecutor(2) as pool:
        directories = [pool.submit(ensure) for _ in range(2)]
    assert {jars_in(done.result()) == CONTENT for done in directories} == {True}
    assert len(mirror.asked) == len(FILES)


def test_failed_fetch_leaves_nothing_that_looks_complete(
    tmp_path: Path, mirror: MirrorServer
) -> None:
    del mirror.files[KAFKA]
    with pytest.raises(JarsUnavailableError, match=f"{KAFKA}: HTTP 404") as caught:
        ensured(tmp_path)
    assert exit_code_of(caught.value) is ExitCode.UNAVAILABLE
    assert [path.name for path in tmp_path.iterdir()] == [f"kafka-{KAFKA_VERSION}.lock"]
    for way in ("https_proxy=", "SSL_CERT_FILE=", REPOSITORY_VARIABLE):
        assert way in str(caught.value)


def test_cache_that_cannot_be_made_is_told_with_the_way_to_name_another(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JarsUnavailableError, match=r"file.*COOP_CACHE_DIR"):
        ensured(tmp_path / "file")


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, ExitCode.DISK_FULL), (errno.EDQUOT, ExitCode.DISK_FULL),
     (errno.EMFILE, ExitCode.FILES), (errno.EACCES, ExitCode.UNAVAILABLE)],
)  # fmt: skip
def test_a_cache_that_cannot_be_written_ends_with_the_code_of_its_reason(
    tmp_path: Path,
    mirror: MirrorServer,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    code: ExitCode,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(CoopConsumerError) as caught:
        ensured(tmp_path)
    assert exit_code_of(caught.value) is code
    assert mirror.asked


# -- the repository --------------------------------------------------------------------------------


def test_a_file_that_is_not_the_pinned_one_is_never_kept(
    tmp_path: Path, mirror: MirrorServer
) -> None:
    """A portal that answers everything with its own page, say, or worse."""
    mirror.files[KAFKA] = b"<html>log in first</html>"
    with pytest.raises(JarsUnavailableError, match="is not the expected file: its SHA-256 is"):
        ensured(tmp_path)
    assert not list(tmp_path.glob("**/*.jar"))


def test_what_may_pass_is_tried_again(tmp_path: Path, mirror: MirrorServer) -> None:
    mirror.refusals[KAFKA] = [503, 429]
    assert jars_in(ensured(tmp_path)) == CONTENT
    assert mirror.asked.count(KAFKA) == 3


def test_a_repository_that_stays_away_is_given_up(tmp_path: Path, mirror: MirrorServer) -> None:
    mirror.refusals[KAFKA] = [503] * 9
    with pytest.raises(JarsUnavailableError, match="HTTP 503"):
        ensured(tmp_path)
    assert mirror.asked.count(KAFKA) == maven.TRIES


def test_a_login_goes_to_the_mirror_and_into_no_message(
    tmp_path: Path, mirror: MirrorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REPOSITORY_VARIABLE, f"http://ann:s%40cret@{mirror.place}")
    ensured(tmp_path)
    assert mirror.logins == {"Basic YW5uOnNAY3JldA=="}
    del mirror.files[KAFKA]
    with pytest.raises(JarsUnavailableError) as caught:
        ensured(tmp_path / "other")
    assert "cret" not in str(caught.value)
    assert "cret" not in repr(MavenRepository("http://a", "ann:s@cret"))


def test_a_repository_may_be_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, content in FILES.items():
        (tmp_path / "repository" / path).parent.mkdir(parents=True)
        (tmp_path / "repository" / path).write_bytes(content)
    monkeypatch.setenv(REPOSITORY_VARIABLE, (tmp_path / "repository").as_uri())
    assert jars_in(ensured(tmp_path / "cache")) == CONTENT
    (tmp_path / "repository" / KAFKA).unlink()
    with pytest.raises(JarsUnavailableError, match="No such file"):
        ensured(tmp_path / "other")


@pytest.mark.parametrize(
    "text", ["nexus", "nexus.example.com/maven", "ftp://a/b", "https://", "https://a:b/c"]
)
def test_a_mirror_that_is_no_url_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(REPOSITORY_VARIABLE, text)
    with pytest.raises(ConfigError, match=f"{REPOSITORY_VARIABLE}=.* is no URL") as caught:
        ensured(tmp_path)
    assert exit_code_of(caught.value) is ExitCode.USAGE


def test_a_mirror_that_is_no_url_keeps_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError) as caught:
        MavenRepository.named_in({REPOSITORY_VARIABLE: "ann:s3cret@nexus"})
    assert "s3cret" not in str(caught.value)


def test_nobody_at_that_address_is_told_with_the_reason(
    tmp_path: Path, mirror: MirrorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REPOSITORY_VARIABLE, "http://127.0.0.1:1")
    with pytest.raises(JarsUnavailableError, match="Connection refused"):
        ensured(tmp_path)
    assert mirror.asked == []
