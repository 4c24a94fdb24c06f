"""Login tokens that nobody signs, and a provider of them that a test tells what to do.

In: how long tokens live, what a call does. Out: tokens that Kafka's unsecured validator takes until
they end. `PROVIDER` names it in a configuration. In another process it gives tokens of
`TOKEN_LIVES_S` seconds.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

PROVIDER = "tests.support.tokens:provider"
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
ACCEPTED: Mapping[str, str] = {
    "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.client.oauthbearer.sasl.jaas.config": (
        f'{LOGIN} unsecuredLoginStringClaim_sub="broker";'
    ),
}
"""A broker's settings: it takes such tokens besides passwords."""
ENDING: Mapping[str, str] = {
    **ACCEPTED,
    "listener.name.client.oauthbearer.connections.max.reauth.ms": "3600000",
}
"""The same, and it ends each connection with its token."""


def unsigned(user: str, lives_s: float = 3_600.0) -> tuple[str, float]:
    """A token, and its end."""
    now_s = time.time()
    end_s = now_s + lives_s
    parts = ({"alg": "none"}, {"sub": user, "iat": now_s, "exp": end_s})
    texts = [base64.urlsafe_b64encode(json.dumps(it).encode()).rstrip(b"=") for it in parts]
    return b".".join([*texts, b""]).decode(), end_s


@dataclass(eq=False)
class ToldProvider:
    """Gives tokens of `root`.

    Attributes:
        lives_s: How long they live.
        ends_s: When each of those given ends.
        instead: What a call does; None: it gives a token.
    """

    lives_s: float = float(os.environ.get("TOKEN_LIVES_S", "3600"))
    ends_s: list[float] = field(default_factory=list)
    instead: Callable[[], object] | None = None

    def __call__(self) -> object:
        if self.instead is not None:
            return self.instead()
        token, end_s = unsigned("root", self.lives_s)
        self.ends_s.append(end_s)
        return token, end_s

    def have_ended(self, count: int) -> bool:
        """Whether the first so many tokens have ended."""
        return len(self.ends_s) >= count and self.ends_s[count - 1] < time.time()


provider = ToldProvider()
