"""How clients log in to an embedded broker: SASL/SCRAM over TLS, and ACLs. Pure values.

Room: `coop_consumer.broker`. In: PEM files, names and passwords of a test. Out: the
broker's settings for its client listener, the users to create when the storage is formatted, and
the matching client settings. Brokers talk among themselves in plain text on loopback ports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SCRAM = "SCRAM-SHA-512"

ClientConfig = dict[str, str | int | float | bool]
"""Settings of a confluent-kafka client, as its constructors take them."""


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """SASL/SCRAM over TLS on the client listener, with ACLs if `authorize`.

    Attributes:
        keystore: PEM file with the broker's private key, in PKCS #8 ("BEGIN PRIVATE KEY"; Kafka
            reads no other form), then its certificate chain. The certificate must name the IP
            address 127.0.0.1, which is what the broker advertises.
        truststore: PEM file with the authority that signed it; clients verify against it.
        users: Name to password. They exist from the first start on.
        super_users: Those of `users` that no ACL restricts; at least one, as it is also the one
            that asks the broker whether it is up.
        authorize: Enforce ACLs: users who are not super users may only do what an ACL allows.

    Raises:
        ValueError: A super user has no password, or there is none.

    The passwords are on a command line while the storage is formatted: for tests, not for secrets.
    """

    keystore: Path
    truststore: Path
    users: Mapping[str, str] = field(repr=False)
    super_users: tuple[str, ...]
    authorize: bool = True

    def __post_init__(self) -> None:
        """Raise if no client could log in."""
        unknown = [name for name in self.super_users if name not in self.users]
        if unknown or not self.super_users:
            raise ValueError(f"super_users need to be one or more of users; unknown: {unknown}")

    def broker_properties(self) -> dict[str, str]:
        """The settings of the client listener, and of the authorizer."""
        listener = "listener.name.client"
        scram_login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        properties = {
            f"{listener}.sasl.enabled.mechanisms": SCRAM,
            f"{listener}.{SCRAM.lower()}.sasl.jaas.config": scram_login,
            f"{listener}.ssl.keystore.type": "PEM",
            f"{listener}.ssl.keystore.location": str(self.keystore),
            f"{listener}.ssl.truststore.type": "PEM",
            f"{listener}.ssl.truststore.location": str(self.truststore),
        }
        if self.authorize:
            properties |= {
                "authorizer.class.name": (
                    "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
                ),
                # The brokers' own plain listeners know no names: ANONYMOUS is the brokers.
                "super.users": ";".join(
                    f"User:{name}" for name in ("ANONYMOUS", *self.super_users)
                ),
            }
        return properties

    def format_arguments(self) -> list[str]:
        """What the storage tool needs to create the users."""
        return [
            argument
            for name, password in sorted(self.users.items())
            for argument in ("--add-scram", f"{SCRAM}=[name={name},password={password}]")
        ]

    def client_config(self, user: str | None = None) -> ClientConfig:
        """The settings of librdkafka to log in as `user`, by default the first super user.

        Raises:
            KeyError: No such user.
        """
        name = self.super_users[0] if user is None else user
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": SCRAM,
            "sasl.username": name,
            "sasl.password": self.users[name],
            "ssl.ca.location": str(self.truststore),
        }
