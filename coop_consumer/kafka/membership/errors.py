"""Errors of kafka-python in the words of this library. Pure.

In: an error of the membership's client. Out: what it means for a member of this group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import errors as kafka_errors

from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    ConfigError,
    CoopConsumerError,
    FencedError,
    ForeignProtocolError,
    MemberLostError,
    TopicMissingError,
)

_RIGHTS = {
    kafka_errors.GroupAuthorizationFailedError: ("group {group}", "read"),
    kafka_errors.TopicAuthorizationFailedError: ("topic {subject}", "read"),
    kafka_errors.TransactionalIdAuthorizationFailedError: ("transactional.id {subject}", "write"),
}
"""Of each refusal the resource and the operation."""


class StaleError(Exception):
    """A commit names a generation that is not the one held."""


def refused(problem: str) -> ConfigError:
    """The error of a setting that kafka-python does not take."""
    return ConfigError("group membership", problem, "Correct this setting")


def in_our_words(  # noqa: PLR0911 - a table
    error: Exception, settings: Mapping[str, Any], member: str
) -> CoopConsumerError | None:
    """Say what an error of kafka-python means for a member of this group; None if nothing known."""
    group: str = settings["group_id"]
    servers = settings["bootstrap_servers"]
    bootstrap = servers if isinstance(servers, str) else ",".join(servers)
    user = settings["sasl_plain_username"] or ""
    match error:
        case StaleError():
            return MemberLostError(group, member, str(error))
        case (
            kafka_errors.IllegalGenerationError()
            | kafka_errors.UnknownMemberIdError()
            | kafka_errors.RebalanceInProgressError()
        ):
            return MemberLostError(group, member, f"the broker answered {type(error).__name__}")
        case kafka_errors.FencedInstanceIdError():
            return FencedError(member, settings["group_instance_id"] or "")
        case kafka_errors.InconsistentGroupProtocolError() | kafka_errors.GroupIdNotFoundError():
            return ForeignProtocolError(group)
        case kafka_errors.AuthorizationError() if type(error) in _RIGHTS:
            resource, operation = _RIGHTS[type(error)]
            where = resource.format(group=group, subject=_subject(error))
            return AuthorizationError(where, operation, user)
        case kafka_errors.SaslAuthenticationFailedError():
            return AuthorizationError(f"cluster {bootstrap}", "authenticate", user)
        case kafka_errors.InvalidSessionTimeoutError():
            return ConfigError(
                "session.timeout.ms",
                f"={settings['session_timeout_ms']} is outside the broker's bounds",
                "Choose a value between its group.min.session.timeout.ms and "
                "group.max.session.timeout.ms (6000 and 1800000 unless changed)",
            )
        case kafka_errors.UnknownTopicOrPartitionError():
            return TopicMissingError(_subject(error))
        case kafka_errors.RetriableError():
            return BrokerUnreachableError(bootstrap, str(error) or type(error).__name__)
        case kafka_errors.KafkaConfigurationError():
            return refused(f"cannot be configured: {error}")
        case _:
            return None


def _subject(error: Exception) -> str:
    """The subject of the error: kafka-python gives a name, or a set of names."""
    about = error.args[0] if error.args else "(not named by the broker)"
    return about if isinstance(about, str) else ", ".join(sorted(about))
