"""`coop-consumer policy`: what operators allow topics and groups, whatever members configure."""

from __future__ import annotations

import json

import click

from coop_consumer.admin.outside import append_from_outside
from coop_consumer.admin.policy_places import place_of, policies_in_force
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.places import TOPIC
from coop_consumer.core.policies import NAMES
from coop_consumer.errors import ConfigError
from coop_consumer.kafka.policies import LOG_PARTITION
from coop_consumer.kafka.topics import Topics
from coop_consumer.plain_text import all_printable
from offsets import PolicyKey, PolicyRecord, encode_key, encode_value

NO_GROUP = "coop-consumer-policy"
"""A group name for a configuration that needs one, where none is meant."""


@click.group(short_help="Allow or forbid sharing, for a topic or a group.")
def policy() -> None:
    """Allow or forbid sharing, for a topic or a group, whatever its members configure.

    A running group follows within topics.watch.interval.ms, by a rebalance of its own.
    """


@policy.command(name="set", short_help="Set a policy.")
@click.argument("setting", metavar="NAME=true|false")
@click.option(
    "--topic", "-t", type=TOPIC, metavar="TOPIC", help="Of this topic: accept.range.fetch."
)
@click.option("--group", "-g", metavar="GROUP", help="Of this group: accept.individual.commit.")
@connection_options
@log_option("warning")
def set_policy(
    connection: Connection, *, setting: str, topic: str | None, group: str | None
) -> None:
    """Set the policy of one topic or one group.

    accept.range.fetch=false: no group shares partitions of the topic. accept.individual.commit=
    false: the group shares no partition of any topic. Members then get whole partitions only, and
    those beyond the number of partitions wait. true, which holds without a policy, takes it back.

    A group's policy is where its progress is. If its guarantee is changed, set it again.
    """
    key = _key(topic, group)
    accept = _accepts(setting, key)
    config = place_of(connection.config(group or NO_GROUP), key)
    topics = Topics(config)
    topics.check_broker()
    if topic is not None:
        # A policy of a name that is mistyped would forbid nothing.
        topics.describe([topic], verb="done")
    topics.progress_topic()
    # Acceptance is the default, so it deletes the policy's record.
    record = None if accept else encode_value(PolicyRecord({NAMES[key.scope]: "false"}))
    append_from_outside(config, config.producer(), {LOG_PARTITION: [(encode_key(key), record)]})
    echo(_policy_line(key, accept=accept))


@policy.command(name="get", short_help="Show the policies in force.")
@click.option("--topic", "-t", type=TOPIC, metavar="TOPIC", help="Only of this topic.")
@click.option("--group", "-g", metavar="GROUP", help="Only of this group.")
@click.option("--json", "in_json", is_flag=True, help="Print JSON, documented in docs/cli.md.")
@connection_options
@log_option("warning")
def get_policy(
    connection: Connection, *, topic: str | None, group: str | None, in_json: bool
) -> None:
    """Show the policies of one topic, of one group, or all that forbid something."""
    only = [_key(topic, group)] if topic or group else []
    records = policies_in_force(connection.config(group or NO_GROUP), only)
    asked = only or sorted(records)
    found = [(key, key not in records) for key in asked]
    if in_json:
        told = {"policies": [_as_dict(key, accept=ok) for key, ok in found]}
        echo(json.dumps(all_printable(told)))
    elif not found:
        echo("no policies: every topic and group may share")
    else:
        echo("\n".join(_policy_line(key, accept=ok) for key, ok in found))


def _key(topic: str | None, group: str | None) -> PolicyKey:
    if topic is not None and group is None:
        return PolicyKey("topic", topic)
    if group is not None and topic is None:
        return PolicyKey("group", group)
    raise ConfigError(
        "--topic, --group",
        "are both given, or both missing: a policy is one topic's or one group's",
        "Give either --topic or --group",
    )


def _accepts(setting: str, key: PolicyKey) -> bool:
    name, _, value = setting.partition("=")
    if name != NAMES[key.scope]:
        raise ConfigError(
            name, f"is no policy of a {key.scope}", f"A {key.scope} has {NAMES[key.scope]} alone"
        )
    if value not in ("true", "false"):
        raise ConfigError(name, f"={value} is neither true nor false", "Give true or false")
    return value == "true"


def _policy_line(key: PolicyKey, *, accept: bool) -> str:
    return f"{key.scope} {key.name}: {NAMES[key.scope]}={str(accept).lower()}"


def _as_dict(key: PolicyKey, *, accept: bool) -> dict[str, object]:
    return {"scope": key.scope, "name": key.name, "policy": NAMES[key.scope], "accept": accept}
