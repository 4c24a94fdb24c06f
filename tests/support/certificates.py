"""Certificates for a secured broker, made by the test that needs them.

In: an empty folder. Out: a `BrokerSecurity` whose PEM files lie in it, and a few users.
"""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from coop_consumer.broker import BrokerSecurity


def make_security(folder: Path) -> BrokerSecurity:
    """An authority of its own, a broker certified by it, and the users `root`, `ann` and `bob`.

    `root` may do anything, the others what ACLs allow.
    """
    authority = trustme.CA()
    broker = authority.issue_cert("127.0.0.1")
    key = load_pem_private_key(broker.private_key_pem.bytes(), password=None)
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain_pem = b"".join(certificate.bytes() for certificate in broker.cert_chain_pems)
    keystore, truststore = folder / "broker.pem", folder / "authority.pem"
    keystore.write_bytes(key_pem + chain_pem)
    authority.cert_pem.write_to_path(truststore)
    users = {name: f"{name}-password" for name in ("root", "ann", "bob")}
    return BrokerSecurity(keystore, truststore, users, super_users=("root",))
