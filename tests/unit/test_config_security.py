"""Does one security configuration make the same demands through both clients, or fail clearly?

The handshakes run in memory between the context made for the group membership and a server's.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from coop_consumer.config import Config
from coop_consumer.errors import ConfigError

LEAST = {"bootstrap.servers": "broker.example:9093", "group.id": "billing"}
LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": "hunter2",
}


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


def membership(settings: dict[str, str]) -> dict[str, object]:
    return Config.from_dict(LEAST | settings).membership()


def context_of(settings: dict[str, str]) -> ssl.SSLContext:
    context = membership({"security.protocol": "ssl"} | settings)["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    return context


def server_of(authority: trustme.CA, host: str = "broker.example") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    return context


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> str:
    """Both sides in memory, turn by turn; returns the cipher agreed on."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname="broker.example"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for side in sides:
            _step(side.do_handshake)
    # TLS 1.3 tells a client of its refused certificate only with the first data.
    sides[1].write(b"x")
    assert sides[0].read() == b"x"
    cipher = sides[0].cipher()
    assert cipher is not None
    return cipher[0]


def _step(act: Callable[[], None]) -> None:
    try:
        act()
    except ssl.SSLWantReadError:
        return


def test_a_broker_of_the_named_authority_is_trusted(authority: trustme.CA, ca_file: str) -> None:
    assert shake_hands(context_of({"ssl.ca.location": ca_file}), server_of(authority))


def test_a_broker_of_another_authority_is_refused(ca_file: str) -> None:
    stranger = server_of(trustme.CA(key_type=trustme.KeyType.ECDSA))

    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        shake_hands(context_of({"ssl.ca.location": ca_file}), stranger)


def test_a_broker_under_another_name_is_refused_unless_told(
    authority: trustme.CA, ca_file: str
) -> None:
    elsewhere = server_of(authority, host="other.example")
    settings = {"ssl.ca.location": ca_file}

    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(context_of(settings), elsewhere)
    unnamed = context_of(settings | {"ssl.endpoint.identification.algorithm": "none"})
    assert shake_hands(unnamed, elsewhere)


def test_without_verification_any_broker_will_do() -> None:
    stranger = server_of(trustme.CA(key_type=trustme.KeyType.ECDSA), host="other.example")

    trusting = context_of({"enable.ssl.certificate.verification": "false"})

    assert shake_hands(trusting, stranger)


def test_a_certificate_of_its_own_is_shown_to_the_broker(
    authority: trustme.CA, ca_file: str, tmp_path: Path
) -> None:
    server = server_of(authority)
    server.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(server)
    identity = authority.issue_cert("alice@example.org")
    key, chain = tmp_path / "key.pem", tmp_path / "chain.pem"
    identity.private_key_pem.write_to_path(key)
    identity.cert_chain_pems[0].write_to_path(chain)
    anonymous = {"ssl.ca.location": ca_file}
    own = {"ssl.certificate.location": str(chain), "ssl.key.location": str(key)}

    assert shake_hands(context_of(anonymous | own), server)
    with pytest.raises(ssl.SSLError):
        shake_hands(context_of(anonymous), server)


def test_the_ciphers_are_those_named(authority: trustme.CA, ca_file: str) -> None:
    server = server_of(authority)
    server.maximum_version = ssl.TLSVersion.TLSv1_2  # cipher lists say nothing of TLS 1.3
    named = "ECDHE-ECDSA-AES256-GCM-SHA384"

    context = context_of({"ssl.ca.location": ca_file, "ssl.cipher.suites": named})

    assert shake_hands(context, server) == named


def test_a_directory_of_authorities_is_accepted(tmp_path: Path) -> None:
    context = context_of({"ssl.ca.location": str(tmp_path)})

    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_without_an_authority_the_system_decides() -> None:
    assert context_of({}).verify_mode is ssl.CERT_REQUIRED


def test_a_revocation_list_is_checked(authority: trustme.CA, ca_file: str) -> None:
    context = context_of({"ssl.ca.location": ca_file, "ssl.crl.location": ca_file})

    assert context.verify_flags & ssl.VERIFY_CRL_CHECK_LEAF
    # The file holds no list for this authority, so its certificates cannot be shown to be valid.
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get certificate CRL"):
        shake_hands(context, server_of(authority))


@pytest.mark.parametrize(
    "settings",
    [
        {"ssl.ca.location": "missing.pem"},
        {"ssl.crl.location": "missing.pem"},
        {"ssl.certificate.location": "missing.pem", "ssl.key.location": "missing.pem"},
        {"ssl.cipher.suites": "NO-SUCH-CIPHER"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_file_that_cannot_be_used_is_named(settings: dict[str, str]) -> None:
    name, value = next(iter(settings.items()))

    with pytest.raises(ConfigError) as caught:
        context_of(settings)

    assert caught.value.name == name
    assert caught.value.problem.startswith(f"={value} cannot be used (")


def test_a_locked_key_without_its_password_is_an_error_not_a_question(
    authority: trustme.CA, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization as pem

    identity = authority.issue_cert("alice@example.org")
    locked = pem.load_pem_private_key(identity.private_key_pem.bytes(), None).private_bytes(
        pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.BestAvailableEncryption(b"hunter2")
    )
    key, chain = tmp_path / "key.pem", tmp_path / "chain.pem"
    key.write_bytes(locked)
    identity.cert_chain_pems[0].write_to_path(chain)
    own = {"ssl.certificate.location": str(chain), "ssl.key.location": str(key)}

    context_of(own | {"ssl.key.password": "hunter2"})
    for wrong in ({}, {"ssl.key.password": "swordfish"}):
        with pytest.raises(ConfigError, match=r"ssl\.certificate\.location=") as caught:
            context_of(own | wrong)
        assert "swordfish" not in str(caught.value)


def test_a_login_is_translated_for_the_membership() -> None:
    keywords = membership(LOGIN)

    assert isinstance(keywords.pop("ssl_context"), ssl.SSLContext)
    assert {name: value for name, value in keywords.items() if name.startswith("s")} == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "hunter2",
        "session_timeout_ms": 10_000,
    }


def test_kerberos_logs_in_from_the_ticket_cache_in_both_clients() -> None:
    made = Config.from_dict(
        LEAST
        | {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
        }
    )

    assert made.membership()["sasl_kerberos_service_name"] == "kafka"
    assert made.data_plane()["sasl.kerberos.min.time.before.relogin"] == 0


@pytest.mark.parametrize(
    ("settings", "named", "told"),
    [
        ({"security.protocol": "TLS"}, "security.protocol", "Choose PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism", "is missing"),
        (
            LOGIN | {"sasl.mechanism": "OAUTHBEARER"},
            "oauth.token.provider",
            "is missing: OAUTHBEARER logs in by tokens",
        ),
        (
            LOGIN | {"oauth.token.provider": "auth:token"},
            "oauth.token.provider",
            "nothing logs in by tokens",
        ),
        ({"oauth.token.provider": "auth:token"}, "oauth.token.provider", "nothing logs in"),
        (
            LOGIN | {"sasl.mechanism": "OAUTHBEARER", "oauth.token.provider": "auth.token"},
            "oauth.token.provider",
            "is not module:callable",
        ),
        (
            LOGIN | {"sasl.mechanism": "AWS_MSK_IAM"},
            "sasl.mechanism",
            "one of the two clients does not know it",
        ),
        (LOGIN | {"sasl.username": ""}, "sasl.username", "is missing"),
        (LOGIN | {"sasl.password": ""}, "sasl.password", "is missing"),
        (LOGIN | {"security.protocol": "SSL"}, "sasl.mechanism", "makes no use of it"),
        ({"ssl.ca.location": "ca.pem"}, "ssl.ca.location", "makes no use of it"),
        (
            {"security.protocol": "SSL", "ssl.certificate.location": "chain.pem"},
            "ssl.certificate.location",
            "is set without ssl.key.location",
        ),
        (
            {"security.protocol": "SSL", "ssl.key.location": "key.pem"},
            "ssl.key.location",
            "is set without ssl.certificate.location",
        ),
        (
            {"security.protocol": "SSL", "ssl.key.password": "hunter2"},
            "ssl.key.password",
            "is set without ssl.key.location",
        ),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "dns"},
            "ssl.endpoint.identification.algorithm",
            "Choose HTTPS, NONE",
        ),
        (
            {"security.protocol": "SSL", "enable.ssl.certificate.verification": "maybe"},
            "enable.ssl.certificate.verification",
            "Choose TRUE, FALSE",
        ),
    ],
)
def test_what_would_only_look_safe_is_refused(
    settings: dict[str, str], named: str, told: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(LEAST | settings)

    assert caught.value.name == named
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)


# -- librdkafka alone: Spark's source and sinks ----------------------------------------------------

OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "billing",
    "sasl.oauthbearer.client.secret": "hunter2",
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
}


def test_a_login_by_tokens_is_for_librdkafka_alone() -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.method may not be set"):
        Config.from_dict(LEAST | OIDC)
    with pytest.raises(ConfigError, match=r"oauth\.token\.provider is missing"):
        Config.from_dict(LEAST | {name: OIDC[name] for name in list(OIDC)[:2]})
    made = Config.from_dict(LEAST | OIDC, both_clients=False)
    for view in (made.data_plane(), made.progress_reader(), made.producer("one"), made.admin()):
        assert OIDC.items() <= view.items()
    assert "hunter2" not in repr(made)
    with pytest.raises(AssertionError):
        made.membership()


@pytest.mark.parametrize("both_clients", [True, False])
def test_a_provider_of_tokens_travels_as_text_to_every_client(both_clients: bool) -> None:
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "oauthbearer",
        "oauth.token.provider": "auth:cloud.token",
    }
    made = Config.from_dict(LEAST | login, both_clients=both_clients)
    for view in (made.data_plane(), made.progress_reader(), made.producer("one"), made.admin()):
        assert view["oauth.token.provider"] == "auth:cloud.token"
    if both_clients:
        keywords = made.membership()
        assert keywords["sasl_oauth_token_provider"] == login["oauth.token.provider"]
        assert keywords["sasl_mechanism"] == "OAUTHBEARER"


def test_two_sources_of_tokens_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match=r"beside oauth\.token\.provider: librdkafka would"):
        Config.from_dict(LEAST | OIDC | {"oauth.token.provider": "auth:token"}, both_clients=False)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"sasl.oauthbearer.method": "default"}, r"sasl\.oauthbearer\.method is not oidc"),
        ({"sasl.oauthbearer.method": "odic"}, r"sasl\.oauthbearer\.method=odic is unknown"),
        ({"security.protocol": "SSL"}, "makes no use of it"),
        ({"sasl.mechanism": "OAUTHBEARERS"}, "OAUTHBEARERS is unknown.*OAUTHBEARER"),
        ({"sasl.oauthbearer.clientid": "a"}, r"sasl\.oauthbearer\.clientid may not be set"),
    ],
)
def test_what_librdkafka_alone_would_not_log_in_with_is_refused(
    said: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        Config.from_dict(LEAST | OIDC | said, both_clients=False)


def test_tokens_that_nobody_signs_need_no_endpoint() -> None:
    Config.from_dict(
        LEAST
        | {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
        },
        both_clients=False,
    )


def test_librdkafka_alone_takes_certificates_as_text_and_gets_its_own_tickets() -> None:
    ssl_text = {"security.protocol": "SSL", "ssl.certificate.pem": "C", "ssl.key.pem": "hunter2"}
    made = Config.from_dict(LEAST | ssl_text | {"ssl.key.password": "x"}, both_clients=False)
    assert made.admin()["ssl.key.pem"] == "hunter2"
    assert "hunter2" not in repr(made)
    kerberos = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
    relogin = "sasl.kerberos.min.time.before.relogin"
    assert Config.from_dict(LEAST | kerberos, both_clients=False).admin()[relogin] == 0
    keytab = kerberos | {"sasl.kerberos.keytab": "/etc/billing.keytab"}
    assert relogin not in Config.from_dict(LEAST | keytab, both_clients=False).admin()
