"""A group that logs in by tokens of a few seconds: it lives past many of them.

The broker ends each connection with its token, and takes tokens that nobody signs. Stock tools log
in by a password.
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer import Config, CooperativeConsumer, WorkerPool, token_source
from coop_consumer.broker import EmbeddedBroker
from coop_consumer.cli.app import app
from coop_consumer.errors import ConfigError, ExitCode, TokenUnavailableError
from coop_consumer.kafka.slice_reader import read_slice
from coop_consumer.patterns import ExclusiveProducer
from offsets import OffsetRange
from tests.integration.test_exactly_once import assert_once, visible
from tests.support import tokens
from tests.support.brokers import own_broker
from tests.support.certificates import make_security
from tests.support.command import Command
from tests.support.job import Job
from tests.support.journal import WAIT_S, lost, out_of_order, repeated
from tests.support.pools import Gate, Pool
from tests.support.sending import Sends, places_of
from tests.support.stock import eventually, keys_of
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

LIVES_S = 5.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    security = make_security(tmp_path_factory.mktemp("pem"))
    with own_broker(security=security, config=tokens.ENDING) as running:
        yield running


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> tokens.ToldProvider:
    """Of this test alone, as the source of its tokens is."""
    made = tokens.ToldProvider(LIVES_S)
    monkeypatch.setattr(tokens, "provider", made)
    monkeypatch.setattr(token_source, "_SOURCES", {})
    return made


@pytest.fixture
def orders(broker: EmbeddedBroker, group_id: str) -> Job:
    """As whoever logs in by a password sees it."""
    by_password = broker.client_config("root")
    admin = AdminClient(by_password)
    create_topic(admin, group_id, 2)
    return Job(by_password, admin, f"{group_id}-group", group_id, 2)


@pytest.fixture
def members(orders: Job, provider: tokens.ToldProvider) -> Job:
    """The same for those that log in by tokens: only its settings are of use."""
    del provider
    client = {
        "bootstrap.servers": orders.client["bootstrap.servers"],
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": orders.client["ssl.ca.location"],
        "sasl.mechanism": "OAUTHBEARER",
        "oauth.token.provider": tokens.PROVIDER,
    }
    return replace(orders, client=client)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_group_lives_on_past_many_tokens(
    orders: Job,
    members: Job,
    guarantee: str,
    provider: tokens.ToldProvider,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every client logs in again and again: two members, outputs, commits, transactions."""
    output = f"{orders.topic}-out"
    create_topic(orders.admin, output)
    settings = {**members.settings, "processing.guarantee": guarantee, "output.topics": output}
    pools = [WorkerPool(Sends, settings, [orders.topic], workers=4) for _ in range(2)]
    produced: list[tuple[int, int]] = []

    def are_all_visible() -> bool:
        return len(visible(orders, output)) >= len(produced)

    with ExitStack() as running, ThreadPoolExecutor() as starters:
        # At the same time: each waits seconds for its clients' first tokens.
        for started in [starters.submit(running.enter_context, pool) for pool in pools]:
            started.result()
        eventually(lambda: all(pool.assignment() for pool in pools))
        begun = len(provider.ends_s)
        for count in range(1, 4):  # each round lies behind the end of another token
            eventually(partial(provider.have_ended, begun + count))
            produced += orders.produce(keys_of(50, 10))
            eventually(are_all_visible)
    assert_once(places_of(visible(orders, output)), produced)
    orders.wait_for_lag(0)
    assert "not a member any more" not in caplog.text
    ours = [it for it in caplog.records if it.name.startswith("coop_consumer.member")]
    assert [it.message for it in ours if it.levelno >= logging.ERROR] == []


def test_a_consumer_lives_on_past_many_tokens(
    orders: Job, members: Job, provider: tokens.ToldProvider
) -> None:
    with CooperativeConsumer(members.settings) as consumer:
        consumer.subscribe([orders.topic])
        for count in range(1, 4):
            eventually(partial(provider.have_ended, count))
            produced = orders.produce(keys_of(20, 5))
            for _ in produced:
                record = consumer.poll(WAIT_S)
                assert record is not None
                consumer.done(record)
            consumer.commit()


def fail() -> object:
    raise ConnectionError("the token endpoint is away")


@pytest.mark.parametrize(
    ("instead", "guarantee"),
    [(fail, "at_least_once"), (threading.Event().wait, "exactly_once")],
    ids=["raises", "hangs"],
)
def test_nothing_is_lost_while_the_provider_gives_nothing(  # noqa: PLR0917 - fixtures
    orders: Job,
    members: Job,
    provider: tokens.ToldProvider,
    guarantee: str,
    instead: Callable[[], object],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its token ends, all its connections close, and it goes on once there is a token again.

    How a provider fails is nothing to a member's clients: the source of tokens hides it
    (`tests/unit/test_token_source.py`). So each way of failing stands beside one guarantee.
    """
    monkeypatch.setattr(token_source, "CALL_S", 0.5)
    monkeypatch.setattr(token_source, "_REPORT_S", 0.5)
    gate = Gate("key-0")
    settings = {**members.settings, "processing.guarantee": guarantee}
    pool = Pool(settings, orders.topic, handler=gate)
    with pool.pool:
        produced = orders.produce(keys_of(40, 10))
        gate.wait_for_arrival()
        provider.instead = instead
        given = len(provider.ends_s)
        produced += orders.produce(keys_of(40, 10)[1:])
        eventually(partial(provider.have_ended, given))
        eventually(lambda: "no connection can log in until there is another" in caplog.text)
        gate.open()
        produced += orders.produce(keys_of(40, 10))
        provider.instead, provider.lives_s = None, 3_600.0
        pool.journal.wait_for(produced)
        orders.wait_for_lag(0)
    assert lost(pool.journal.rows, produced) == set()
    assert out_of_order(pool.journal.rows) == []
    assert repeated(pool.journal.rows) <= len(produced)


@pytest.mark.parametrize(
    ("instead", "error", "text"),
    [
        (fail, TokenUnavailableError, f"it raised ConnectionError in {tokens.__file__}:"),
        (threading.Event().wait, TokenUnavailableError, "it has not returned for 0.5 s"),
        (lambda: ("s3cret", "soon"), ConfigError, "has returned (str, str)"),
    ],
    ids=["raises", "hangs", "nonsense"],
)
def test_a_start_without_a_token_says_why(  # noqa: PLR0917 - fixtures
    members: Job,
    provider: tokens.ToldProvider,
    instead: Callable[[], object],
    error: type[Exception],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_source, "CALL_S", 0.5)
    provider.instead = instead
    with pytest.raises(error) as caught:
        Pool(members.settings, members.topic).pool.start()
    assert text in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert "is away" not in str(caught.value), "it may quote a secret"


def test_a_token_that_the_broker_refuses_is_a_refused_login(
    members: Job, provider: tokens.ToldProvider
) -> None:
    provider.instead = lambda: ("no.such.token", 4_000_000_000.0)
    with pytest.raises(Exception, match="the broker refused to authenticate"):
        Pool(members.settings, members.topic).pool.start()


@pytest.mark.usefixtures("logging_as_it_was")
def test_commands_log_in_by_tokens(orders: Job, members: Job, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    text = "".join(f"{name}={value}\n" for name, value in members.client.items())
    file.write_text(text, encoding="utf-8")
    with members.running() as pool:
        pool.journal.wait_for(orders.produce(keys_of(20, 5)))
        for command in (["status", orders.group, "--json"], ["doctor", "-g", orders.group]):
            told = CliRunner().invoke(app, command, env={"COOP_CONFIG_FILE": str(file)})
            assert told.exit_code == ExitCode.OK, told.output


def test_a_member_in_its_own_process_finds_the_provider_by_its_name(
    orders: Job, members: Job, started: Callable[..., Command]
) -> None:
    command = started(members, "Led")
    orders.produce([None])
    command.wait_for("begin 0")


def test_single_writers_and_slices_log_in_by_tokens(orders: Job, members: Job) -> None:
    """They have librdkafka alone; the settings of a slice travel to executors as they are."""
    place = TopicPartition(orders.topic, 0)
    with ExclusiveProducer(members.client, place, "writer-1") as producer, producer.transaction():
        producer.put(0, b"value", b"key")
    made = pickle.loads(pickle.dumps(Config.from_dict(members.settings)))  # noqa: S301 - ours
    slices = read_slice(made, place, OffsetRange(0, 0))
    assert [message.value() for messages, _ in slices for message in messages] == [b"value"]
