"""How kafka-python's clients log in by tokens; `token_login` has the same for librdkafka.

In: keyword arguments of a client, in which the provider is a text. Out: the same, with an object
that the client asks for a token. It asks on the thread that also sends heartbeats, and gets the
newest token at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.sasl.oauth import AbstractTokenProvider

from coop_consumer.token_source import TokenSource, source_of

_KEYWORD = "sasl_oauth_token_provider"


def logged_in_membership(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments to make a client of kafka-python of.

    Raises:
        ConfigError, TokenUnavailableError: There is no token, and never was one.
    """
    provider = keywords.get(_KEYWORD)
    if not isinstance(provider, str):
        return dict(keywords)
    source = source_of(provider)
    source.begin()
    return {**keywords, _KEYWORD: _Login(source)}


class _Login(AbstractTokenProvider):  # type: ignore[misc] # ships no types
    """What kafka-python asks for a token, on the thread that also sends heartbeats."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    def token(self) -> str:
        """The newest token.

        Raises:
            KafkaConnectionError: It has expired. The client tries again later; a token that the
                broker refuses would end the member.
        """
        token = self._source.token()
        if token is None:
            raise kafka_errors.KafkaConnectionError("the login token has expired")
        return token.value

    def extensions(self) -> dict[str, str]:
        """What the login says besides."""
        token = self._source.token()
        return {} if token is None else dict(token.extensions)
