"""Security settings, checked as a whole and translated for the client of the group membership.

Room: `coop_consumer.config`; reads only key and certificate files, when it builds a TLS context.
In: librdkafka's security names, as passed to the data plane. Out: keyword arguments of
kafka-python, or a `ConfigError` if settings contradict each other, or one works in only one of the
two clients. No secret enters an error's text.

TLS goes over as a ready `ssl.SSLContext`, not by file names: kafka-python 3.0 ignores a cipher
list, has no switch for verification, and fails when it loads a revocation list. So both clients
demand the same of the broker.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coop_consumer.config.setting import shown
from coop_consumer.errors import ConfigError

Passed = str | int | float
"""The types of a passed setting; a `bool` is an `int`."""

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TOKENS = "OAUTHBEARER"
MECHANISMS = (*PASSWORD_MECHANISMS, "GSSAPI", TOKENS)
_PROVIDER = "oauth.token.provider"
ENDPOINT_CHECKS = ("HTTPS", "NONE")
TRUTHS = ("TRUE", "FALSE")

_TICKETS = ("sasl.kerberos.keytab", "sasl.kerberos.kinit.cmd", "sasl.kerberos.principal")
"""If one of these is set, librdkafka gets its tickets by itself; no member may set them."""

SASL_KEYWORDS = {
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}
"""librdkafka's name → kafka-python's, which says "plain" for SCRAM as well."""


def check_security(
    passed: Mapping[str, Passed], *, token_provider: bool = False, both_clients: bool = True
) -> None:
    """Check the security settings against each other. Reads no file. O(settings).

    Args:
        passed: The settings.
        token_provider: Whether `oauth.token.provider` is set.
        both_clients: Whether both clients have to understand them, or only librdkafka.

    Raises:
        ConfigError: A value is unknown, a setting needs another one, or a setting has no effect
            under the chosen protocol.
    """
    protocol = _protocol(passed)
    _choice(passed, "ssl.endpoint.identification.algorithm", ENDPOINT_CHECKS, "HTTPS")
    _choice(passed, "enable.ssl.certificate.verification", TRUTHS, "TRUE")
    _check_own_certificate(passed)
    if "SASL" in protocol:
        _check_login(passed, token_provider=token_provider, both_clients=both_clients)
    else:
        _check_idle(passed, "sasl.", "SASL_SSL or SASL_PLAINTEXT")
    if token_provider and not ("SASL" in protocol and _mechanism(passed) == TOKENS):
        raise ConfigError(
            _PROVIDER,
            "is set, but nothing logs in by tokens",
            f"Set security.protocol=SASL_SSL and sasl.mechanism={TOKENS}, or leave it out",
        )
    if "SSL" not in protocol:
        _check_idle(passed, "ssl.", "SSL or SASL_SSL")


def data_plane_security(passed: Mapping[str, Passed]) -> dict[str, Any]:
    """Settings that librdkafka needs beside the passed names. O(1)."""
    takes_tickets = any(name in passed for name in _TICKETS)
    if "SASL" in _protocol(passed) and _mechanism(passed) == "GSSAPI" and not takes_tickets:
        # Both clients read the ticket cache; librdkafka must not run a kinit of its own over it.
        return {"sasl.kerberos.min.time.before.relogin": 0}
    return {}


def membership_security(passed: Mapping[str, Passed]) -> dict[str, Any]:
    """The same login and the same demands on the broker, as keyword arguments of kafka-python.

    Reads the certificate files, so call it in the process, and on the host, of the client.

    Raises:
        ConfigError: If a file cannot be read, is not PEM, or its password does not fit.
    """
    protocol = _protocol(passed)
    arguments: dict[str, Any] = {"security_protocol": protocol}
    if "SSL" in protocol:
        arguments["ssl_context"] = _tls_context(passed)
    if "SASL" in protocol:
        arguments["sasl_mechanism"] = _mechanism(passed)
        for name, keyword in SASL_KEYWORDS.items():
            if name in passed:
                arguments[keyword] = str(passed[name])
    return arguments


def _protocol(passed: Mapping[str, Passed]) -> str:
    return _choice(passed, "security.protocol", PROTOCOLS, "PLAINTEXT")


def _mechanism(passed: Mapping[str, Passed]) -> str:
    return _choice(passed, "sasl.mechanism", MECHANISMS, None)


def _choice(
    passed: Mapping[str, Passed], name: str, choices: tuple[str, ...], default: str | None
) -> str:
    """The value in upper case, as kafka-python wants it; librdkafka takes any case."""
    value = str(passed.get(name, default or "")).upper()
    if value in choices:
        return value
    remedy = f"Choose {', '.join(choices)}"
    if not value:
        raise ConfigError(name, "is missing: a login needs a mechanism", remedy)
    problem = f"={shown(passed[name])} is unknown, or one of the two clients does not know it"
    raise ConfigError(name, problem, remedy)


def _check_login(passed: Mapping[str, Passed], *, token_provider: bool, both_clients: bool) -> None:
    mechanism = _mechanism(passed)
    if mechanism in PASSWORD_MECHANISMS:
        for name in ("sasl.username", "sasl.password"):
            if not passed.get(name):
                raise ConfigError(name, f"is missing: {mechanism} logs in by it", f"Set {name}")
    if mechanism == TOKENS and token_provider:
        _check_one_source(passed)
    elif mechanism == TOKENS and both_clients:
        raise ConfigError(
            _PROVIDER,
            f"is missing: {TOKENS} logs in by tokens, and nobody would give any",
            f"Set {_PROVIDER}=module:callable, a function that returns (token, expiry in Unix "
            "seconds)",
        )
    elif mechanism == TOKENS:
        _check_token_source(passed)


def _check_one_source(passed: Mapping[str, Passed]) -> None:
    """Two sources of tokens contradict each other."""
    for name in passed:
        if name.startswith(("sasl.oauthbearer.", "enable.sasl.oauthbearer.")):
            raise ConfigError(
                name,
                f"is set beside {_PROVIDER}: librdkafka would get tokens by itself",
                "Leave one of the two out",
            )


def _check_token_source(passed: Mapping[str, Passed]) -> None:
    """See that librdkafka can ask for tokens by itself."""
    method, unsecured = "sasl.oauthbearer.method", "enable.sasl.oauthbearer.unsecure.jwt"
    by_oidc = _choice(passed, method, ("OIDC", "DEFAULT"), "DEFAULT") == "OIDC"
    if not by_oidc and _choice(passed, unsecured, TRUTHS, "FALSE") == "FALSE":
        raise ConfigError(
            method,
            "is not oidc: nobody would ask for tokens",
            f"Set {_PROVIDER}=module:callable, or {method}=oidc with "
            "sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.client.id and "
            "sasl.oauthbearer.client.secret",
        )


def _check_idle(passed: Mapping[str, Passed], prefix: str, protocols: str) -> None:
    """A security setting that is silently without effect would feel safe and not be it."""
    for name in passed:
        if name.startswith(prefix):
            raise ConfigError(
                name,
                f"is set, but security.protocol={_protocol(passed)} makes no use of it",
                f"Set security.protocol to {protocols}, or leave it out",
            )


def _check_own_certificate(passed: Mapping[str, Passed]) -> None:
    certificate, key = "ssl.certificate.location", "ssl.key.location"
    for name, partner in ((certificate, key), (key, certificate), ("ssl.key.password", key)):
        in_text = f"{partner.removesuffix('.location')}.pem"  # only librdkafka takes that
        if name in passed and partner not in passed and in_text not in passed:
            raise ConfigError(name, f"is set without {partner}", f"Set {partner} too")


def _tls_context(passed: Mapping[str, Passed]) -> ssl.SSLContext:
    verify = _choice(passed, "enable.ssl.certificate.verification", TRUTHS, "TRUE") == "TRUE"
    endpoint = _choice(passed, "ssl.endpoint.identification.algorithm", ENDPOINT_CHECKS, "HTTPS")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = verify and endpoint == "HTTPS"
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    _load_authorities(context, passed)
    _load_own_certificate(context, passed)
    if "ssl.cipher.suites" in passed:
        with _errors_named("ssl.cipher.suites", passed):
            context.set_ciphers(str(passed["ssl.cipher.suites"]))
    return context


def _load_authorities(context: ssl.SSLContext, passed: Mapping[str, Passed]) -> None:
    if "ssl.ca.location" in passed:
        with _errors_named("ssl.ca.location", passed):
            place = Path(str(passed["ssl.ca.location"]))
            if place.is_dir():
                context.load_verify_locations(capath=place)
            else:
                context.load_verify_locations(cafile=place)
    else:
        context.load_default_certs()
    if "ssl.crl.location" in passed:
        with _errors_named("ssl.crl.location", passed):
            context.load_verify_locations(cafile=str(passed["ssl.crl.location"]))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_own_certificate(context: ssl.SSLContext, passed: Mapping[str, Passed]) -> None:
    if "ssl.certificate.location" not in passed:
        return
    with _errors_named("ssl.certificate.location", passed):
        context.load_cert_chain(
            certfile=str(passed["ssl.certificate.location"]),
            keyfile=str(passed["ssl.key.location"]),
            # Without a password, OpenSSL would stop and ask for one at the terminal.
            password=str(passed.get("ssl.key.password", "")),
        )


@contextmanager
def _errors_named(name: str, passed: Mapping[str, Passed]) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        remedy = "Check that the files exist, are PEM, belong together, and can be read"
        raise ConfigError(name, f"={passed[name]} cannot be used ({error})", remedy) from error
