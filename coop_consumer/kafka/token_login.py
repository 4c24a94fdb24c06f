"""How librdkafka's clients log in by tokens; `membership_login` has the same for kafka-python.

In: settings of a client, in which the provider is a text (`oauth.token.provider`). Out: the same
settings, with a function that librdkafka calls. Every client is made of what comes out here, so
each gets its tokens from the one source of this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coop_consumer.config import Config
from coop_consumer.token_provider import PROVIDER
from coop_consumer.token_source import source_of


def logged_in(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings to make a client of librdkafka of.

    With a provider of tokens, the client's constructor then waits one second: confluent-kafka looks
    once a second whether the first token has come.

    Raises:
        ConfigError, TokenUnavailableError: There is no token, and never was one.
    """
    wanted = dict(settings)
    provider = wanted.pop(PROVIDER, None)
    if provider is None:
        return wanted
    source = source_of(provider)
    source.begin()
    return {**wanted, "oauth_cb": source.for_librdkafka}


def without_login(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings to make a client of that never connects: it shall not wait for a token."""
    return {name: value for name, value in settings.items() if name != PROVIDER}


def require_token(config: Config) -> None:
    """See that there is a valid token, if this configuration needs one. Blocks, at most 10 s.

    Raises:
        ConfigError: There is no such provider, or it returns no token.
        TokenUnavailableError: It raises, or hangs.
    """
    if config.oauth_token_provider is not None:
        source_of(config.oauth_token_provider).begin(valid=True)
