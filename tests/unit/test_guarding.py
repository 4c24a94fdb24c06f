"""The options of a page: refused where nothing says who may ask, before anything begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from coop_consumer.cli.guarding import GuardChoice
from coop_consumer.cli.options import Connection
from coop_consumer.config import Config
from coop_consumer.errors import ConfigError
from coop_consumer.ops.actions import PageAction
from coop_consumer.ops.page.rendering import environment
from tests.support.asking import ask, serving

NETWORK = "0.0.0.0:9466"


def choice(token_file: Path | None = None, *, acts: bool = False) -> GuardChoice:
    return GuardChoice(token_file, (), acts)


def config(**more: object) -> Config:
    return Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing", **more})


def test_this_machine_alone_needs_no_token() -> None:
    assert len(choice().middleware("127.0.0.1:9466")) == len(choice().middleware("[::1]:9466")) == 1


def test_the_network_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        choice().middleware(NETWORK)
    text = str(raised.value)
    assert text.startswith("--address")
    assert "--token-file FILE" in text
    secret = tmp_path / "token"
    secret.write_text("x" * 32)
    assert choice(secret).middleware(NETWORK)


def test_a_token_file_that_is_missing_is_told_by_its_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--token-file") as raised:
        choice(tmp_path / "nothing").middleware(NETWORK)
    assert "nothing" in str(raised.value)


def test_actions_are_offered_if_they_are_allowed() -> None:
    assert choice().allows == frozenset()
    connection = Connection(None, (), "b:9092")
    with serving(choice().action_routes(connection, environment(), ())) as server:
        assert "--allow-actions" in ask(server, "/confirm/skip/billing").text
    assert choice(acts=True).allows == {PageAction.RETRY, PageAction.SKIP, PageAction.RELEASE}


@pytest.mark.parametrize("name", ["ops.token.file", "ops.allowed.hosts", "ops.allow.actions"])
def test_a_setting_of_the_page_without_an_address_is_a_mistake(name: str) -> None:
    value = "true" if name == "ops.allow.actions" else "x.example"
    with pytest.raises(ConfigError, match=rf"{name}.*ops\.address"):
        config(**{name: value})


def test_a_member_that_others_may_change_needs_a_token() -> None:
    acts = {"ops.address": NETWORK, "ops.allow.actions": "true"}
    with pytest.raises(ConfigError, match=r"ops\.allow\.actions.*ops\.token\.file"):
        config(**acts)
    assert config(**acts, **{"ops.token.file": "t"}).ops_allow_actions
    assert config(**{**acts, "ops.address": "127.0.0.1:9464"}).ops_allow_actions


def test_names_of_hosts_are_a_list() -> None:
    given = {"ops.address": "127.0.0.1:9464", "ops.allowed.hosts": ["a.example", "b"]}
    assert config(**given).ops_host_names == {"a.example", "b"}
    assert config().ops_host_names == frozenset()


@pytest.mark.parametrize("hosts", ["a b", "a:80", "https://a", ",", "-a"], ids=list("12345"))
def test_what_is_no_name_of_a_host_is_refused(hosts: str) -> None:
    with pytest.raises(ConfigError, match=r"ops\.allowed\.hosts"):
        config(**{"ops.address": "127.0.0.1:9464", "ops.allowed.hosts": hosts})
