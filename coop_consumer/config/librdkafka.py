"""librdkafka's names: which pass through, which this library decides, which it refuses. Pure data.

Room: `coop_consumer.config`. The lists were read off librdkafka 2.16.0 itself
(`rd_kafka_conf_properties_show`), and a test offers every name to the installed client. They are
shipped, not asked for at run time, so that a configuration is checked without a client, a thread or
a broker. librdkafka itself judges the values of passed names, when the client is made.
"""

from __future__ import annotations

from dataclasses import dataclass


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHARED = _names(
    """
    api.version.fallback.ms api.version.request api.version.request.timeout.ms
    broker.address.family broker.address.ttl broker.version.fallback
    builtin.features client.dns.lookup client.rack connections.max.idle.ms debug
    enable.metrics.push enable.random.seed enable.ssl.certificate.verification interceptors
    log.connection.close log.thread.name log_level
    max.in.flight.requests.per.connection message.copy.max.bytes message.max.bytes
    metadata.recovery.rebootstrap.trigger.ms plugin.library.paths receive.message.max.bytes
    reconnect.backoff.jitter.ms reconnect.backoff.max.ms reconnect.backoff.ms
    retry.backoff.max.ms retry.backoff.ms sasl.kerberos.service.name
    sasl.mechanism sasl.password sasl.username security.protocol socket.blocking.max.ms
    socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails
    socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms
    ssl.ca.location ssl.certificate.location ssl.cipher.suites ssl.crl.location
    ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password
    topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt
    topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.interval.ms
    topic.metadata.refresh.sparse
    """
)
"""Names that every client understands: consumers, producer, admin."""

CONSUMER = _names(
    """
    check.crcs coordinator.query.interval.ms fetch.error.backoff.ms fetch.max.bytes fetch.min.bytes
    fetch.queue.backoff.ms fetch.wait.max.ms max.partition.fetch.bytes queued.max.messages.kbytes
    queued.min.messages
    """
)
"""Names that go only to the data plane's consumer."""

PRODUCER = _names(
    """
    batch.num.messages batch.size compression.level compression.type delivery.timeout.ms linger.ms
    queue.buffering.backpressure.threshold queue.buffering.max.kbytes queue.buffering.max.messages
    request.timeout.ms retries sticky.partitioning.linger.ms transaction.timeout.ms
    """
)
"""Names that go only to the producer of progress and dead letters."""

WATCHED = _names("statistics.interval.ms")
"""Names that go only to the clients whose figures a member shows (docs/metrics.md)."""

PASSED = SHARED | CONSUMER | PRODUCER | WATCHED

LIBRDKAFKA_ALONE = _names(
    """
    enable.sasl.oauthbearer.unsecure.jwt https.ca.location https.ca.pem sasl.kerberos.keytab
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.config
    sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
    sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.oauthbearer.scope
    sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url ssl.ca.pem
    ssl.certificate.pem ssl.curves.list ssl.engine.id ssl.engine.location ssl.key.pem
    ssl.keystore.location ssl.keystore.password ssl.providers ssl.sigalgs.list
    """
)
"""Names that every client of librdkafka understands, and the client of the group membership does
not. They pass where librdkafka is the only client: in Spark's source and sinks."""


@dataclass(frozen=True, slots=True)
class NumberBound:
    """The values allowed for a passed number; librdkafka itself would take more.

    Attributes:
        low: The least, or None.
        high: The greatest, or None.
        why: The reason.
        zero: Whether 0 is allowed, too, because it has a meaning of its own.
    """

    low: int | None
    high: int | None
    why: str
    zero: bool = False

    @property
    def words(self) -> str:
        """The allowed values, in words."""
        least = "" if self.low is None else f"{self.low} or more"
        most = "" if self.high is None else f"{self.high} or less"
        return f"{least}{most}{', or 0' if self.zero else ''}"


BOUNDS = {
    "statistics.interval.ms": NumberBound(
        1_000, None, "each of a client's figures costs the interpreter milliseconds", zero=True
    ),
    "socket.timeout.ms": NumberBound(
        1_000, None, "librdkafka may abort the process if requests time out at once"
    ),
    "connections.max.idle.ms": NumberBound(
        1_000, None, "a connection would be closed before it is used", zero=True
    ),
    "delivery.timeout.ms": NumberBound(
        1_000, None, "a commit would be given up before a broker can acknowledge it", zero=True
    ),
    "request.timeout.ms": NumberBound(
        100, None, "a broker would give up a commit before its replicas have it"
    ),
    "transaction.timeout.ms": NumberBound(
        1_000, None, "a transaction takes some 15 ms, and up to a second on busy brokers"
    ),
    "linger.ms": NumberBound(None, 1_000, "every commit waits this long"),
    "fetch.wait.max.ms": NumberBound(
        None, 10_000, "a new partition waits for the answer to the fetch under way"
    ),
}
"""Passed numbers with which a member would abort, or stand still, though librdkafka takes them."""

ALIASES = {
    "metadata.broker.list": "bootstrap.servers",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "sasl.mechanisms": "sasl.mechanism",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "auto.commit.enable": "enable.auto.commit",
    "request.required.acks": "acks",
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "compression.codec": "compression.type",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
"""Second name → the name used here."""

SECRETS = _names(
    """
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.client.secret sasl.oauthbearer.config sasl.password ssl.key.password
    ssl.key.pem ssl.keystore.password
    """
)
"""Passed names whose value never appears in a text made by this library."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A name whose value is decided here: setting `values[0]` (or a synonym) changes nothing."""

    values: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A name that may not be set, and what to do instead."""

    why: str
    remedy: str


DECIDED = {
    "allow.auto.create.topics": Decided(
        ("false",), "a mistyped topic should be an error, not a new topic"
    ),
    "enable.auto.commit": Decided(
        ("false",), "an offset counts as done when its record was processed, not when it was polled"
    ),
    "enable.auto.offset.store": Decided(
        ("false",), "only the committer decides which offsets are done"
    ),
    "enable.partition.eof": Decided(
        ("true",), "the end of a partition shows that a range has caught up"
    ),
    "group.protocol": Decided(
        ("classic",), "an assignor inside the members assigns key ranges, not the broker"
    ),
    "metadata.recovery.strategy": Decided(
        ("rebootstrap",), "a client that has lost all brokers has to find one again"
    ),
    "enable.idempotence": Decided(
        ("true",), "a repeated progress record must not overtake a later one"
    ),
    "acks": Decided(("all", "-1"), "progress that one broker can lose is not progress"),
}

_CALLBACK = Refused(
    "callbacks run on the framework's own fetch thread",
    "Use the methods of Worker or RangeListener for ranges, WorkerPool.metrics() and "
    "`coop-consumer status` for figures, and Python's logging for errors of the clients",
)
_OAUTH = Refused(
    "only librdkafka would get tokens by it, and not the client of the group membership",
    "Set oauth.token.provider=module:callable, which serves both clients",
)
_SSL_FILES = Refused(
    "the client of the group membership takes keys and certificates from PEM files only",
    "Write them to files and set ssl.ca.location, ssl.certificate.location and ssl.key.location",
)
_SSL_ENGINE = Refused(
    "the client of the group membership uses Python's ssl module, which has no such choice",
    "Leave it out, or restrict it at the broker's listener",
)
_KERBEROS = Refused(
    "both clients log in from the ticket cache, and neither may wait for the other's kinit",
    "Leave it out, and keep the cache fresh with kinit or k5start",
)
_JAVA_FILES = Refused(
    "Java key stores are unknown to librdkafka",
    "Export them to PEM files and set ssl.ca.location, ssl.certificate.location, ssl.key.location",
)
_NO_DESERIALIZER = Refused(
    "records come as bytes: the key's bytes decide the key range",
    "Leave it out and decode inside the worker",
)
_NO_EFFECT = Refused("it has no effect on this library's clients", "Leave it out")
_TOPIC_POLICY = Refused(
    "it is a policy of a topic, not a setting of a member",
    "Leave it out; this member's own wish is allow.individual.commit",
)

REFUSED = {
    "internal.termination.signal": Refused(
        "librdkafka would send that signal to this process, whose handlers are yours",
        "Leave it out",
    ),
    "partition.assignment.strategy": Refused(
        "partitions are assigned as key ranges", "Use assignor=sticky, roundrobin or range"
    ),
    "group.remote.assignor": Refused(
        "the members assign ranges", "Use assignor=sticky, roundrobin or range"
    ),
    "group.protocol.type": Refused("it is always 'consumer'", "Leave it out"),
    "transactional.id": Refused(
        "each run of a member makes one of its own, so that a predecessor can be fenced",
        "Leave it out",
    ),
    "auto.commit.interval.ms": Refused(
        "there is no automatic commit", "Use commit.interval.ms and commit.max.records"
    ),
    "max.poll.records": Refused(
        "batches follow the workers' pace", "Use max.records.in.lanes to bound them"
    ),
    "offset.store.method": Refused("progress is kept in the progress topic", "Leave it out"),
    "offset.store.path": Refused("progress is kept in the progress topic", "Leave it out"),
    "offset.store.sync.interval.ms": Refused(
        "progress is kept in the progress topic", "Leave it out"
    ),
    "topic.blacklist": Refused(
        "it would hide topics from one of two clients only", "Subscribe to the topics you mean"
    ),
    "share.acknowledgement.mode": Refused(
        "share groups keep no order per key, and are not used", "Leave it out"
    ),
    "accept.range.fetch": _TOPIC_POLICY,
    "reserve.message.value.range.fetch": Refused(
        "it belongs to a cache inside the broker, which this library does not use", "Leave it out"
    ),
    "sasl.jaas.config": Refused(
        "it is a setting of Java clients", "Use sasl.mechanism, sasl.username and sasl.password"
    ),
    **dict.fromkeys(
        _names(
            """
            error_cb throttle_cb stats_cb log_cb background_event_cb rebalance_cb
            offset_commit_cb consume_cb dr_cb dr_msg_cb on_commit on_delivery logger socket_cb
            connect_cb closesocket_cb open_cb resolve_cb opaque default_topic_conf
            default.topic.config partitioner partitioner_cb msg_order_cmp enabled_events log.queue
            """
        ),
        _CALLBACK,
    ),
    **dict.fromkeys(
        _names("enable.sasl.oauthbearer.unsecure.jwt oauthbearer_token_refresh_cb oauth_cb"), _OAUTH
    ),
    **dict.fromkeys(
        _names(
            """
            ssl.key.pem ssl_key ssl.certificate.pem ssl_certificate ssl.ca.pem ssl_ca
            ssl.ca.certificate.stores ssl.keystore.location ssl.keystore.password
            ssl.certificate.verify_cb
            """
        ),
        _SSL_FILES,
    ),
    **dict.fromkeys(
        _names("ssl.curves.list ssl.sigalgs.list ssl.providers ssl_engine_callback_data"),
        _SSL_ENGINE,
    ),
    **dict.fromkeys(
        _names(
            """
            consume.callback.max.messages delivery.report.only.error enable.gapless.guarantee
            produce.offset.report queuing.strategy
            """
        ),
        _NO_EFFECT,
    ),
}

REFUSED_PREFIXES = {
    "https.ca.": _OAUTH,
    "key.": _NO_DESERIALIZER,
    "sasl.kerberos.": _KERBEROS,
    "sasl.oauthbearer.": _OAUTH,
    "ssl.engine.": _SSL_ENGINE,
    "ssl.truststore.": _JAVA_FILES,
    "value.": _NO_DESERIALIZER,
}
"""Families of names, for those that neither pass nor stand in `REFUSED` by themselves."""


def refusal_of(name: str) -> Refused | None:
    """Why `name` may not be set, or None. O(families)."""
    if name in PASSED:
        return None
    families = (why for prefix, why in REFUSED_PREFIXES.items() if name.startswith(prefix))
    return REFUSED.get(name) or next(families, None)
