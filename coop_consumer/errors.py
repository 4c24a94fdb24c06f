"""What can go wrong, sorted by what the caller can do about it.

Room: `coop_consumer`; pure values, no Kafka, no threads. In: what a failure knows about itself
(topic, partition, keys, offset, names). Out: an error whose text says what failed and where, what
happens now, and what to do. Foreign errors are translated into these once, in
`coop_consumer.kafka`, with `raise ... from`. A broken invariant is not in this tree: it is an
`AssertionError`. Secrets are never a field of an error, so they never reach a log through one.

    CoopConsumerError
    ├── RetriableError                          wait and repeat; the framework already does
    │   ├── BrokerUnreachableError
    │   ├── UnexpectedAnswerError
    │   ├── TokenUnavailableError
    │   ├── MemberLostError
    │   ├── MemberSilentError
    │   ├── TransactionAbortedError
    │   ├── TransactionDroppedError
    │   ├── AppendAbortedError
    │   ├── AppendInDoubtError
    │   ├── LogBlockedError
    │   ├── IndividualCommitTooOldError         91
    │   └── MaxIndividualCommitReachedError     92
    ├── SetupError                              change a setting, topic or right, then start again
    │   ├── ConfigError
    │   │   └── GroupIdMissingError
    │   ├── WorkerImportError
    │   ├── MisuseError
    │   ├── LogTokenError
    │   ├── AppendTooLargeError
    │   ├── SnapshotError
    │   ├── BatchConflictError
    │   ├── OffsetUnknownError
    │   ├── OffsetsPartlyStoredError
    │   ├── LogConflictError
    │   ├── TopicMissingError
    │   ├── ProgressTopicError
    │   │   └── ProgressLogLostError
    │   │       ├── LogLostForGoodError
    │   │       └── LogWriterBrokenError
    │   ├── NoTransactionsError
    │   ├── ChangelogError
    │   ├── RecordTooLargeError
    │   ├── RecordRefusedError
    │   ├── AuthorizationError
    │   ├── ForeignProtocolError
    │   ├── ContractMismatchError
    │   ├── VersionMismatchError
    │   │   └── ClientVersionError
    │   ├── OutOfResourceError
    │   │   ├── DiskFullError
    │   │   ├── OutOfFilesError
    │   │   ├── OutOfMemoryError
    │   │   └── OutOfThreadsError
    │   ├── IndividualCommitNotAllowedError     88
    │   ├── TopicRangeFetchNotAllowedError      89
    │   └── ConsumerRangeFetchNotAcceptedError  90
    └── FatalError                              this member has ended: look, decide, start again
        ├── MembershipError
        ├── WorkerCallbackError
        ├── WorkerMethodError
        ├── WorkerFlushError
        ├── EventLoopStoppedError
        ├── ProcessingStoppedError
        ├── HandlerOverdueError
        ├── DataLossError
        ├── InputGoneError
        ├── TopicRecreatedError
        ├── LogRecreatedError
        ├── StateMachineError
        ├── BulkLoadConflictError
        ├── PublisherFencedError
        └── FencedError

The numbers are those of the KIP, as `code`. Every error pickles, for workers in other processes.
"""

from __future__ import annotations

import errno
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from assignors.key_range import WHOLE

if TYPE_CHECKING:
    from assignors.key_range import KeyRange


class ExitCode(IntEnum):
    """How a process of the command line ends; each number carries its `meaning`."""

    meaning: str

    OK = 0, "Done as asked."
    BROKEN = 1, "A promise was broken, or the program failed in an unknown way."
    USAGE = 2, "Wrong arguments, configuration, or worker class: correct them."
    UNAVAILABLE = 3, "No broker answered, or a failure outlasted its retries; a probe says no."
    UNAUTHORIZED = 4, "The broker refused the login or a right is missing: grant it."
    STOPPED = 5, "Stopped by policy (on.failure=stop, on.data.loss=stop): decide about the record."
    MISSING = 6, "A topic or a group does not exist: create it or correct its name."
    CONFLICT = 7, "The group, its progress topic or a policy does not fit this member."
    OVERDUE = 8, "A handler ran for too long (on.overdue=exit): start again; `run` does so itself."
    DISK_FULL = 9, "A disk or a quota is full: make room."
    FILES = 10, "The process may open no more files: raise its limit (ulimit -n)."
    MEMORY = 11, "The machine or the container has too little memory: give more, or ask for less."
    THREADS = 12, "No further thread or process may be started: raise the limit (ulimit -u)."
    INTERRUPTED = 130, "Interrupted from the keyboard."

    def __new__(cls, value: int, meaning: str) -> Self:
        """Make a member that is the number and carries the meaning."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member


@dataclass(eq=False)
class CoopConsumerError(Exception):
    """The base of every error this library raises on purpose.

    Subclasses are dataclasses with positional fields, and `str` makes the text from the fields.
    They compare by identity, and are not frozen, because Python itself sets `__traceback__`.
    """

    code: ClassVar[int | None] = None
    """The KIP's error number, or None where the KIP has none."""

    exit_code: ClassVar[ExitCode] = ExitCode.BROKEN
    """The exit code of a command that meets this error."""

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...], dict[str, Any]]:
        """Pickle by fields: `args` would be empty for an error made with keywords."""
        values = tuple(getattr(self, field.name) for field in fields(self))
        return type(self), values, dict(self.__dict__)


Told = Callable[[CoopConsumerError | None], None]
"""Takes the outcome of a request: None, or the error."""


def reason_of(error: CoopConsumerError) -> str:
    """What failed, without the rest of the text: that is for whoever ends by this error.

    >>> reason_of(BrokerUnreachableError("group billing", "timed out"))
    'group billing: no broker answered (timed out)'
    """
    return str(error).partition(". ")[0]


class RetriableError(CoopConsumerError):
    """The failure may pass: the same call can succeed later, and nothing is lost by waiting."""

    exit_code = ExitCode.UNAVAILABLE


class SetupError(CoopConsumerError):
    """The failure stays until a setting, a topic, a right or a name changes."""

    exit_code = ExitCode.CONFLICT


class FatalError(CoopConsumerError):
    """This member has ended. Its finished records are committed as far as the broker allows it."""

    exit_code = ExitCode.CONFLICT


@dataclass(eq=False)
class BrokerUnreachableError(RetriableError):
    """No broker of the bootstrap list answered in time."""

    bootstrap: str
    detail: str

    def __str__(self) -> str:
        # If one broker is missing, not all, `bootstrap` is a place: "group billing".
        is_place = " " in self.bootstrap.replace(", ", ",").strip()
        where = self.bootstrap if is_place else f"bootstrap.servers={self.bootstrap}"
        return (
            f"{where}: no broker answered ({self.detail}). Nothing was "
            "read or committed. Check that the broker runs, that host and port are right, and that "
            "security.protocol is the listener's."
        )


@dataclass(eq=False)
class UnexpectedAnswerError(RetriableError):
    """A broker answered with an error that names no resource, right or setting."""

    where: str
    detail: str

    def __str__(self) -> str:
        return (
            f"{self.where}: the broker answered {self.detail!r}. Nothing is lost by that: a member "
            "asks again by itself, and a command may be repeated. If it stays, look into the "
            "broker's log at this time."
        )


@dataclass(eq=False)
class TokenUnavailableError(RetriableError):
    """The provider of login tokens has raised, or does not return. `detail` says which."""

    provider: str
    detail: str

    def __str__(self) -> str:
        return (
            f"oauth.token.provider={self.provider}: no token to log in with ({self.detail}). "
            "Nothing was started. See that what the provider asks can be reached from here, then "
            "start again; give its requests a time-out."
        )


@dataclass(eq=False)
class MemberLostError(RetriableError):
    """The coordinator no longer knows this member; its ranges may belong to others already."""

    group: str
    member: str
    detail: str

    def __str__(self) -> str:
        return (
            f"group {self.group}, member {self.member}: no longer in the group ({self.detail}). "
            "It starts no further record, commits no further progress, and joins again; records "
            "that it had not committed repeat. If this happens often, look for a frozen or "
            "overloaded process, or raise session.timeout.ms."
        )


@dataclass(eq=False)
class MemberSilentError(RetriableError):
    """The thread of a member of this process has not answered a question about its figures."""

    group: str
    member: str
    waited_s: float

    def __str__(self) -> str:
        return (
            f"group {self.group}, member {self.member}: its thread has not answered within "
            f"{self.waited_s:g} s. What it does goes on, and nothing was changed. Ask again; if it "
            "stays silent, look for code that keeps the interpreter busy, or for a frozen process."
        )


@dataclass(eq=False)
class TransactionAbortedError(RetriableError):
    """A transaction of this member was aborted: nothing of it is visible, and nothing is lost."""

    group: str
    why: str

    def __str__(self) -> str:
        return (
            f"group {self.group}: a transaction was aborted ({self.why}). What it held goes with "
            "the next one. If this happens often, look at the brokers' logs."
        )


@dataclass(eq=False)
class TransactionDroppedError(RetriableError):
    """A block of `CooperativeConsumer.transaction(wait=True)` is not committed, nor will it be."""

    group: str
    member: str

    def __str__(self) -> str:
        return (
            f"group {self.group}, member {self.member}: nothing of this transaction() is "
            "committed, because the member has lost its membership, or a topic has refused an "
            "output; the log says which. Its records come again, here or elsewhere. A record "
            "whose output was refused has failed."
        )


@dataclass(eq=False)
class AppendAbortedError(RetriableError):
    """A conditional append was given up: nothing of it is in the log, and never will be."""

    topic: str
    partition: int
    why: str

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition}: an append was given up ({self.why}). Nothing of it is "
            "in the log. Append it again; if that is in vain, look at the brokers' logs."
        )


@dataclass(eq=False)
class AppendInDoubtError(RetriableError):
    """A conditional append was given up behind its commit: it may be in the log, or not.

    `load` is the bulk load that it belongs to.
    """

    topic: str
    partition: int
    append_id: bytes
    why: str
    load: str = ""

    def __str__(self) -> str:
        remedy = "Read what is visible to learn it"
        if self.load:
            remedy = f"Start the load {self.load} again: it goes on behind its last record"
        elif self.append_id:
            remedy = (
                "Send it again with the same expected token and "
                f"append_id={self.append_id!r}: it is not appended twice"
            )
        return (
            f"{self.topic}-{self.partition}: whether an append is in the log is not known "
            f"({self.why}). All of it is there, or nothing. {remedy}."
        )


@dataclass(eq=False)
class LogBlockedError(RetriableError):
    """Somebody's undecided transaction holds up a partition.

    `whose` names the writer for people. `outlook` says what ends it, in whole sentences, and
    `command` is how an operator does.
    """

    topic: str
    partition: int
    offset: int
    whose: str
    waited_s: int
    outlook: str
    command: str

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition}: a transaction of {self.whose} has been undecided at "
            f"offset {self.offset} for {self.waited_s:g} s. What lies behind it is not visible "
            f"until then, and nothing was changed. {self.outlook} The command is "
            f"`{self.command}`."
        )


@dataclass(eq=False)
class IndividualCommitTooOldError(RetriableError):
    """A commit lies wholly below the stable offset: its facts are known already.

    Members never raise it: they commit facts, and a repeated fact changes nothing. It is the KIP's
    answer to a commit that names offsets, for stores of that kind.
    """

    topic: str
    partition: int
    key_range: KeyRange
    last: int
    stable: int

    code = 91

    def __str__(self) -> str:
        place = _place(self.topic, self.partition, self.key_range)
        return (
            f"{place}: commit up to offset {self.last} "
            f"is below the stable offset {self.stable} ({self.code}). Nothing was written: these "
            f"records are done already. Continue at {self.stable}."
        )


@dataclass(eq=False)
class MaxIndividualCommitReachedError(RetriableError):
    """A range holds as many gap ranges as it may.

    `command` shows the record that the others wait for.
    """

    topic: str
    partition: int
    key_range: KeyRange
    held: int
    limit: int
    command: str

    code = 92

    def __str__(self) -> str:
        place = _place(self.topic, self.partition, self.key_range)
        return (
            f"{place}: {self.held} records are taken and not finished, and each may be a gap; "
            f"max.num.ranges.held={self.limit} ({self.code}). No further record is taken until a "
            f"tenth of them is finished. `{self.command}` names the record that the others "
            "wait for: retry or skip that record, or raise max.num.ranges.held."
        )


@dataclass(eq=False)
class ConfigError(SetupError):
    """One setting is unknown, out of bounds, or contradicts another.

    `problem` continues the sentence that the name begins ("=1 is below 5: every commit is ...", or
    "is missing") and never quotes a secret; `remedy` and `consequence` are sentences without their
    full stops.
    """

    name: str
    problem: str
    remedy: str
    consequence: str = "Nothing was started"

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        gap = "" if self.problem.startswith("=") else " "
        return f"{self.name}{gap}{self.problem}. {self.consequence}. {self.remedy}."


@dataclass(eq=False)
class GroupIdMissingError(ConfigError):
    """A configuration without `group.id`."""

    name: str = "group.id"
    problem: str = "is missing: progress is kept, and partitions are shared, under a group's name"
    remedy: str = "Set group.id to a name that all members of the job use"


@dataclass(eq=False)
class WorkerImportError(SetupError):
    """The worker class named by `module:Class` cannot be loaded.

    `remedy` is a sentence without its full stop.
    """

    spec: str
    detail: str
    remedy: str = (
        "Name it as module:Class; the module has to lie in the current directory, or in PYTHONPATH"
    )

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        return (
            f"worker {self.spec}: cannot be used ({self.detail}). Nothing was started. "
            f"{self.remedy}."
        )


@dataclass(eq=False)
class MisuseError(SetupError):
    """A call with wrong arguments, or one that does not fit the present state.

    `problem` continues the sentence that the call begins ("poll(): the consumer is closed");
    `remedy` and `consequence` are sentences without their full stops.
    """

    call: str
    problem: str
    remedy: str
    consequence: str = "Nothing was changed"

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        return f"{self.call}: {self.problem}. {self.consequence}. {self.remedy}."


@dataclass(eq=False)
class LogTokenError(SetupError):
    """A token that no append to this partition can expect.

    `problem` continues "the token ".
    """

    topic: str
    partition: int
    problem: str

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition}: the token {self.problem}. Nothing was appended. Use a "
            "token of this partition, from token(), from an append, or from a snapshot."
        )


@dataclass(eq=False)
class AppendTooLargeError(SetupError):
    """An append holds more than one transaction takes."""

    topic: str
    partition: int
    records: int
    size: int
    records_max: int
    size_max: int

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition}: an append of {self.records} records and "
            f"{self.size} bytes is more than one transaction takes ({self.records_max} and "
            f"{self.size_max}). Nothing was appended. Append less at once, or use bulk_load."
        )


@dataclass(eq=False)
class SnapshotError(SetupError):
    """A snapshot does not fit its log, and the log cannot do without one.

    `problem` continues "<topic>, partition <number>: the snapshot "; `remedy` is a sentence without
    its full stop.
    """

    topic: str
    partition: int
    problem: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"{self.topic}, partition {self.partition}: the snapshot {self.problem}. Nothing was "
            f"applied or appended. {self.remedy}."
        )


@dataclass(eq=False)
class BatchConflictError(SetupError):
    """A sink's input contradicts what the sink has written under its name.

    `problem` continues "sink <name>, batch <batch>"; `remedy` is a sentence without its full stop.
    """

    name: str
    batch: int
    problem: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"sink {self.name}, batch {self.batch}: {self.problem}. This attempt wrote nothing, "
            f"because records could be missing or double after it. {self.remedy}."
        )


@dataclass(eq=False)
class OffsetUnknownError(SetupError):
    """The entry of a partition in an offset store is damaged, and no sound one is left.

    `log` is the store's log partition, and `offset` the log offset of the damaged record.
    """

    group: str
    topic: str
    partition: int
    log: str
    offset: int

    def __str__(self) -> str:
        return (
            f"group {self.group}, {self.topic}-{self.partition}: its newest record ({self.log}, "
            f"offset {self.offset}) cannot be read, and the log has no sound one before it. So its "
            "offset is unknown, which is not the same as none. Nothing was committed. Find out "
            "who wrote the record, and where the group has got to. Then commit that offset without "
            "expected."
        )


@dataclass(eq=False)
class OffsetsPartlyStoredError(SetupError):
    """A coordinator stored some offsets of a commit, and refused the others.

    `stored` and `refused` list partitions; `detail` is the coordinator's reason.
    """

    group: str
    stored: str
    refused: str
    detail: str

    def __str__(self) -> str:
        return (
            f"group {self.group}: the coordinator refused the offsets of {self.refused} "
            f"({self.detail}), and stored those of {self.stored}. Correct the refused partitions, "
            "and commit them again. A LogOffsetStore commits all offsets or none."
        )


@dataclass(eq=False)
class LogConflictError(SetupError):
    """A log, or a commit, is not what the single writer of this name has left there.

    `problem` continues "<writer>, <place>"; `remedy` is a sentence without its full stop.
    """

    writer: str
    place: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"{self.writer}, {self.place}: {self.problem}. Nothing was written, because records "
            f"could be missing or double after it. {self.remedy}."
        )


@dataclass(eq=False)
class TopicMissingError(SetupError):
    """A topic that is needed does not exist.

    `verb` ends "Nothing is …"; `partition` is the one that was asked for, if that may be missing.
    """

    topic: str
    verb: Literal["consumed", "written", "done"] = "consumed"
    partition: int | None = None

    exit_code = ExitCode.MISSING

    def __str__(self) -> str:
        lacks = "" if self.partition is None else f", has no partition {self.partition}"
        return (
            f"topic {self.topic}: does not exist{lacks}, or this user may not see it. Nothing is "
            f"{self.verb}. Create the topic, correct its name, or grant the right to describe it."
        )


@dataclass(eq=False)
class ProgressTopicError(SetupError):
    """The progress topic is missing and may not be created, or has the wrong shape.

    `problem` continues "progress topic <name>"; `remedy` is a sentence without its full stop.
    """

    topic: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"progress topic {self.topic}: {self.problem}. No partition is shared without it, so "
            f"this member takes no part. {self.remedy}."
        )


@dataclass(eq=False)
class ProgressLogLostError(ProgressTopicError):
    """A run of a member has lost its progress log: deleted, created again, or no longer writable.

    Of its progress only the committed offsets in `__consumer_offsets` are known. A pool and a
    consumer begin a new run by themselves. A caller that gets this error has records in hand.
    """

    remedy: str = (
        "A new run begins by itself once all running or polled records have ended. It creates "
        "the topic if progress.topic.create allows that, and continues at the committed offsets. "
        "Records done beyond these repeat, nothing is lost"
    )

    exit_code = ExitCode.UNAVAILABLE


@dataclass(eq=False)
class LogLostForGoodError(ProgressLogLostError):
    """A group with `processing.guarantee=exactly_once` has lost its progress log.

    Nobody can tell which results are visible beyond the committed offsets. To go on there would
    send them again, so all members end.
    """

    exit_code = ExitCode.CONFLICT

    def __str__(self) -> str:
        return f"progress topic {self.topic}: {self.problem}. {self.remedy}."


@dataclass(eq=False)
class LogWriterBrokenError(ProgressLogLostError):
    """The Producer with which a run writes its progress log can write no more. The log is there.

    So with `processing.guarantee=exactly_once` a new run begins, too.
    """

    remedy: str = (
        "A new run begins by itself, with another producer, once all running or polled records "
        "have ended. What this run had not committed comes again, nothing is lost"
    )


@dataclass(eq=False)
class NoTransactionsError(SetupError):
    """The brokers do not serve a transactional.id, or do not check who commits by it.

    `where` continues "the brokers do not serve"; `remedy` is a sentence without its full stop.
    """

    bootstrap: str
    where: str
    detail: str
    remedy: str = (
        "Look at __transaction_state: of a small cluster, transaction.state.log.replication.factor "
        "must not be above the number of brokers, nor transaction.state.log.min.isr"
    )

    exit_code = ExitCode.UNAVAILABLE

    def __str__(self) -> str:
        return (
            f"bootstrap.servers={self.bootstrap}: the brokers do not serve {self.where} "
            f"({self.detail}). Transactions need that, such as those of "
            f"processing.guarantee=exactly_once. Nothing was begun. {self.remedy}."
        )


@dataclass(eq=False)
class ChangelogError(SetupError):
    """The changelog of keyed state is missing and may not be created, or cannot be used.

    `problem` continues "changelog <name>"; `remedy` is a sentence without its full stop.
    """

    topic: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"changelog {self.topic}: {self.problem}. No range begins without its state, so this "
            f"member takes no part. {self.remedy}."
        )


@dataclass(eq=False)
class RecordTooLargeError(SetupError):
    """A topic, or our own producer, refuses a record for its size."""

    topic: str
    detail: str

    def __str__(self) -> str:
        return (
            f"topic {self.topic}: refuses a record for its size ({self.detail}), so raise the "
            "topic's max.message.bytes and this member's message.max.bytes. Nothing was written."
        )


@dataclass(eq=False)
class RecordRefusedError(SetupError):
    """A topic refuses a record for ever, for another reason than its size.

    `remedy` continues "so"; it has no full stop.
    """

    topic: str
    detail: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"topic {self.topic}: refuses a record ({self.detail}), so {self.remedy}. The record "
            "was not written."
        )


@dataclass(eq=False)
class AuthorizationError(SetupError):
    """The broker refused a login (`operation` "authenticate") or an operation on a resource."""

    resource: str
    operation: str
    principal: str = ""

    exit_code = ExitCode.UNAUTHORIZED

    def __str__(self) -> str:
        who = f"user {self.principal}" if self.principal else "the configured user"
        if self.operation == "authenticate":
            return (
                f"{self.resource}: the broker refused to authenticate {who}. The work ends here; "
                "what is not committed comes again, and nothing is lost. Correct the login "
                "(sasl.mechanism, sasl.username and sasl.password, what oauth.token.provider "
                "returns, or the client's certificate), "
                "or have the user added at the broker."
            )
        principal, how = f"User:{self.principal or 'NAME'}", ""
        # A transactional.id is often of one run: its right alone would help nobody after that.
        if self.resource.startswith(("topic ", "group ")):
            how = f" ({grant_command(self.resource, [self.operation], principal)})"
        return (
            f"{self.resource}: {who} may not {self.operation}. The work ends here; what is not "
            f"committed comes again, and nothing is lost. Grant {self.operation} on "
            f"{self.resource}{how}, or correct the security settings."
        )


_ACL_OPTIONS = {
    "topic": "--topic",
    "changelog": "--topic",
    "group": "--group",
    "transactional.id": "--transactional-id",
}


def grant_command(
    resource: str,
    operations: Iterable[str],
    principal: str,
    bootstrap: str = "HOST:PORT",
    *,
    is_prefix: bool = False,
) -> str:
    """The command of Kafka's own tool that grants operations on a resource.

    Args:
        resource: Its kind and name; of topics there may be several names, parted by ", ".
        operations: As Kafka or our errors name them.
        principal: Who gets them, as in User:ann.
        bootstrap: A broker's address.
        is_prefix: Whether all resources are meant whose names begin so.

    >>> grant_command("group billing", ["read"], "User:ann")[-59:]
    '--allow-principal User:ann --operation Read --group billing'
    """
    kind, _, name = resource.partition(" ")
    option = _ACL_OPTIONS[kind]
    words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--add"]
    words += ["--allow-principal", principal]
    for operation in operations:
        words += ["--operation", operation.replace("_", " ").title().replace(" ", "")]
    for one in name.split(", ") if option == "--topic" else [name]:
        words += [option, one]
    if is_prefix:
        words += ["--resource-pattern-type", "prefixed"]
    return shlex.join(words)


@dataclass(eq=False)
class ForeignProtocolError(SetupError):
    """Members of another protocol, or with other assignors, use the group."""

    group: str
    detail: str = "its members speak another assignment protocol"
    remedy: str = (
        "Stop the plain members first, replace them one by one (upgrade.from), or choose another "
        "group.id"
    )

    def __str__(self) -> str:
        return (
            f"group {self.group}: in use by members with which this one cannot share key ranges "
            f"({self.detail}). This member does not join, and the others are not disturbed. "
            f"{self.remedy}."
        )


@dataclass(eq=False)
class ContractMismatchError(SetupError):
    """A key range has different meanings for members of one group.

    `member` is the refused member, `theirs` the contract of its group and `ours` its own contract,
    both in short text.
    """

    member: str
    theirs: str
    ours: str

    def __str__(self) -> str:
        return (
            f"member {self.member}: its contract ({self.ours}) differs from its group's "
            f"({self.theirs}). It gets no key range, because with two meanings of a key hash some "
            "records would have no owner. Give all members of the group the same ordering, "
            "ordering.block.size, processing.guarantee, transactional.id.prefix, progress.topic "
            "and version, or choose another group.id."
        )


@dataclass(eq=False)
class VersionMismatchError(SetupError):
    """A member and its group's leader share no version of their user data."""

    member: str
    detail: str

    def __str__(self) -> str:
        return (
            f"member {self.member}: it and the group's leader cannot read each other "
            f"({self.detail}). It gets no key range and leaves; the others continue. Bring all "
            "members to releases that share a version, or choose another group.id."
        )


@dataclass(eq=False)
class ClientVersionError(VersionMismatchError):
    """The installed librdkafka writes a group's metadata in a form that is not known here."""

    def __str__(self) -> str:
        return (
            f"member {self.member}: {self.detail}. Nobody could check its transactions by that, so "
            "with processing.guarantee=exactly_once it takes no part. Install another version of "
            "confluent-kafka (2.16 is known to fit), or a newer one of coop-consumer."
        )


@dataclass(eq=False)
class IndividualCommitNotAllowedError(SetupError):
    """The group's policy allows whole partitions only, so progress of a key range is refused."""

    group: str
    member: str
    topic: str
    partition: int
    key_range: KeyRange

    code = 88

    def __str__(self) -> str:
        place = _place(self.topic, self.partition, self.key_range)
        return (
            f"group {self.group}, member {self.member}, {place}: not consumed, group policy "
            f"accept.individual.commit=false ({self.code}): progress of a part of a partition is "
            "not taken. Assign the whole partition or change the policy."
        )


@dataclass(eq=False)
class TopicRangeFetchNotAllowedError(SetupError):
    """The topic's policy allows whole partitions only."""

    group: str
    member: str
    topic: str
    partition: int
    key_range: KeyRange

    code = 89

    def __str__(self) -> str:
        place = _place(self.topic, self.partition, self.key_range)
        return (
            f"group {self.group}, member {self.member}, {place}: not consumed, topic policy "
            f"accept.range.fetch=false ({self.code}). Assign the whole partition or change the "
            "policy."
        )


@dataclass(eq=False)
class ConsumerRangeFetchNotAcceptedError(SetupError):
    """A key range was to be consumed by a member that takes whole partitions only."""

    group: str
    member: str
    topic: str
    partition: int
    key_range: KeyRange

    code = 90

    def __str__(self) -> str:
        place = _place(self.topic, self.partition, self.key_range)
        return (
            f"group {self.group}, member {self.member}, {place}: not consumed, the member has "
            f"allow.individual.commit=false ({self.code}). Assign the whole partition or change "
            "the setting."
        )


@dataclass(eq=False)
class ProcessingStoppedError(FatalError):
    """A record failed for good under `on.failure=stop`; the whole group stops.

    `member` is the member at which the record failed. Other members may raise this error, too.
    `command` counts the record as done once it is parked.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    member: str
    command: str

    exit_code = ExitCode.STOPPED

    def __str__(self) -> str:
        return (
            f"{_place(self.topic, self.partition)} offset {self.offset}: failed for good at member "
            f"{self.member} ({self.reason}). Every member of the group commits what it finished "
            "and stops (on.failure=stop); the record is not done. Correct the worker and start "
            "again; or start with on.failure=park, and once the record is parked skip it by "
            f"`{self.command}`."
        )


@dataclass(eq=False)
class HandlerOverdueError(FatalError):
    """A handler has run for longer than `max.processing.ms`, and still does.

    `key_range` is the assigned range that contains its key. `policy` is the value of `on.overdue`.
    `key` is a text if `log.keys` does not allow the key itself: what is said of it instead. Raised
    only under "exit".
    """

    topic: str
    partition: int
    key_range: KeyRange
    offset: int
    key: bytes | str | None
    running_ms: int
    policy: str

    exit_code = ExitCode.OVERDUE

    def __str__(self) -> str:
        now = {
            "leave": "Its key waits for it, other keys continue",
            "fail": "The attempt counts as failed, and the handler's result is ignored; "
            "it may still run beside the next attempt",
            "exit": "Finished records are committed, and this process ends",
        }[self.policy]
        key = self.key if isinstance(self.key, str) else f" (key {self.key!r:.60})"
        return (
            f"{_place(self.topic, self.partition, self.key_range)} offset {self.offset}"
            f"{key}: its handler has run for {self.running_ms} ms, and still "
            f"does. {now} (on.overdue={self.policy}). Set time-outs for its calls, or raise "
            "max.processing.ms."
        )


@dataclass(eq=False)
class DataLossError(FatalError):
    """Offsets that were not processed are no longer in the log; `first` and `last` are both gone.

    `key_range` reaches from the first to the last hash that the member owned there. `policy` is the
    value of `on.data.loss`. Under "warn" the error is reported, not raised.
    """

    topic: str
    partition: int
    key_range: KeyRange
    first: int
    last: int
    policy: str

    exit_code = ExitCode.STOPPED

    def __str__(self) -> str:
        if self.policy == "stop":
            now = "This member stops"
            remedy = "To accept the loss, move the group with `coop-consumer reset`"
        else:
            now = f"They are counted as lost, and the member continues behind {self.last}"
            remedy = "To stop instead, set on.data.loss=stop"
        return (
            f"{_place(self.topic, self.partition, self.key_range)} "
            f"offsets [{self.first}-{self.last}]: removed from the log before they were "
            f"processed, by retention or a truncation. {now} "
            f"(on.data.loss={self.policy}). {remedy}; check the topic's retention against the lag."
        )


@dataclass(eq=False)
class InputGoneError(FatalError):
    """A single writer has to go on at an offset that its input does not have (any more).

    `low` and `end` are the input's first offset, and that of its next record. `remedy` is a
    sentence without its full stop: how to accept the loss.
    """

    writer: str
    topic: str
    partition: int
    offset: int
    low: int
    end: int
    remedy: str = (
        "To accept that, and go on at the nearest offset, set on.data.loss=warn for this start"
    )

    exit_code = ExitCode.STOPPED

    def __str__(self) -> str:
        if self.offset > self.end:
            why = (
                "A truncation has cut off what is missing, the topic was made again, or somebody "
                "has committed an offset that it never had"
            )
        else:
            why = (
                "Retention has removed what is missing, or the topic was made again: check its "
                "retention against the lag"
            )
        return (
            f"{self.writer}: goes on at offset {self.offset} of "
            f"{_place(self.topic, self.partition)}, which begins at {self.low} and ends at "
            f"{self.end}. {why}. Nothing was written. {self.remedy}."
        )


@dataclass(eq=False)
class TopicRecreatedError(FatalError):
    """A topic was deleted and created again under its name; the old one's records are gone.

    `policy` is the value of `on.data.loss`: under "warn" the error is reported, not raised.
    """

    topic: str
    policy: str

    exit_code = ExitCode.STOPPED

    def __str__(self) -> str:
        who = "This member stops; the next one" if self.policy == "stop" else "The group"
        return (
            f"topic {self.topic} was deleted and made again: unprocessed records of the old one "
            f"are gone, and its progress means nothing for the new one. {who} begins at its "
            f"first record, whatever auto.offset.reset says (on.data.loss={self.policy}). To "
            "begin elsewhere, stop the group and use `coop-consumer reset`."
        )


@dataclass(eq=False)
class LogRecreatedError(FatalError):
    """A log's topic was deleted and created again under its name; its records are gone."""

    topic: str
    partition: int

    exit_code = ExitCode.STOPPED

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition}: the topic was deleted and made again. Tokens, states "
            "and snapshots of the old one mean nothing for the new one. Nothing was appended. "
            "Begin anew with the new topic, or find out who has deleted the old one."
        )


@dataclass(eq=False)
class StateMachineError(FatalError):
    """A method of a state machine raised: what its state is worth is not known.

    A snapshot only looks at the state: nothing but the snapshot is missing then.

    `method` is such as "apply"; `detail` is what was raised.
    """

    topic: str
    partition: int
    method: str
    detail: str

    def __str__(self) -> str:
        now = (
            "Its commit log answers nothing more, as the state may be half changed. What is in the "
            f"log stays there. Correct {self.method}, and open the log again"
        )
        if self.method == "snapshot":  # it has only looked
            now = "There is no new snapshot, and its commit log goes on. Correct snapshot"
        return (
            f"{self.topic}-{self.partition}: {self.method} of the state machine raised "
            f"{self.detail}. {now}."
        )


@dataclass(eq=False)
class BulkLoadConflictError(FatalError):
    """Somebody else has appended to the partition of a bulk load.

    `offset` is of the last visible record, `number` of the first record that was not appended.
    """

    topic: str
    partition: int
    name: str
    offset: int
    number: int

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition}: while the load {self.name} was under way, another "
            f"writer has appended up to offset {self.offset}. The load stops before its record "
            f"number {self.number}; each one before it is in the log once. End the other writer, "
            "such as a second loader of the name. Then start the load again: it goes on behind."
        )


@dataclass(eq=False)
class FencedError(FatalError):
    """Another process took over this member's name.

    `instance` is the `group.instance.id`, empty for a dynamic member.
    """

    member: str
    instance: str = ""

    exit_code = ExitCode.CONFLICT

    def __str__(self) -> str:
        name = f" (group.instance.id={self.instance})" if self.instance else ""
        return (
            f"member {self.member}{name}: another process has joined under this name. This one "
            "starts no further record, commits no further progress, and stops; the other one "
            "continues at the committed progress. Give every running process a name of its own."
        )


@dataclass(eq=False)
class PublisherFencedError(FatalError):
    """Somebody else has begun under this transactional id."""

    transactional_id: str
    detail: str

    exit_code = ExitCode.CONFLICT

    def __str__(self) -> str:
        return (
            f"transactional.id {self.transactional_id}: another writer of this name took over, or "
            f"the broker ended a transaction that was open for too long ({self.detail}). What "
            "this one has written since its last commit never counts; the other writer, or the "
            "next, goes on behind that commit. If two run by mistake, end one, or give each a name "
            "of its own. If there is no other, make batches smaller or raise "
            "transaction.timeout.ms."
        )


@dataclass(eq=False)
class OutOfResourceError(SetupError):
    """This machine refuses the process a resource; `detail` is the system's own text."""

    detail: str

    lacks: ClassVar[str] = "the process lacks something"
    remedy: ClassVar[str] = "Look at the limits of the process"

    def __str__(self) -> str:
        return (
            f"{self.lacks} ({self.detail}). The command ends; uncommitted records repeat. "
            f"{self.remedy}."
        )


@dataclass(eq=False)
class DiskFullError(OutOfResourceError):
    """A disk, or a quota, is full."""

    lacks = "a disk or a quota is full"
    remedy = (
        "Make room there, or name a folder elsewhere (state.dir, --data, COOP_STATE_DIR, TMPDIR)"
    )
    exit_code = ExitCode.DISK_FULL


@dataclass(eq=False)
class OutOfFilesError(OutOfResourceError):
    """The process is at its limit of open files."""

    lacks = "the process may open no more files"
    remedy = (
        "Raise the limit (ulimit -n, LimitNOFILE): a member needs about 100, and its handlers may "
        "need more"
    )
    exit_code = ExitCode.FILES


@dataclass(eq=False)
class OutOfMemoryError(OutOfResourceError):
    """Memory is short."""

    lacks = "memory is short"
    remedy = (
        "Give the process more, or have it ask for less: fewer workers, a smaller "
        "max.bytes.key.range.cache"
    )
    exit_code = ExitCode.MEMORY


@dataclass(eq=False)
class OutOfThreadsError(OutOfResourceError):
    """No further thread or process may be started."""

    lacks = "no further thread or process may be started"
    remedy = (
        "Raise the limit (ulimit -u, TasksMax, the container's pids limit), or run fewer workers"
    )
    exit_code = ExitCode.THREADS


_LACKING: Mapping[type[OutOfResourceError], tuple[frozenset[int], tuple[str, ...]]] = {
    DiskFullError: (frozenset({errno.ENOSPC, errno.EDQUOT}), ("No space left on device",)),
    OutOfFilesError: (frozenset({errno.EMFILE, errno.ENFILE}), ("Too many open files",)),
    OutOfThreadsError: (
        frozenset({errno.EAGAIN}),
        (
            "can't start new thread",
            "Failed to create thread",
            "Unable to create broker thread",
            "unable to create native thread",
            "pthread_create failed",
            "Failed to create worker thread",
            "Out of system resources",
        ),
    ),
    OutOfMemoryError: (
        frozenset({errno.ENOMEM}),
        (
            "Cannot allocate memory",
            "insufficient memory for the Java Runtime Environment",
            "Could not reserve enough space",
            "Could not allocate compressed class space",
            "Failed to allocate initial concurrent mark",
            "Failed to reserve memory",
            "OutOfMemoryError",
        ),
    ),
}
"""By numbers in an OSError, and by words in other texts. OutOfMemoryError is last, because Java
also uses that name when it lacks threads."""


def lacking_in(text: str) -> OutOfResourceError | None:
    """The lacking resource that a text names (a log, an error of C code); None if none."""
    for kind, (_, words) in _LACKING.items():
        line = next((it for it in text.splitlines() if any(word in it for word in words)), None)
        if line is not None:
            return kind(line.strip()[:200])
    return None


def lacking(error: BaseException) -> OutOfResourceError | None:
    """The lacking resource that an error, or a cause of it, names; None if none does.

    >>> type(lacking(OSError(errno.EMFILE, "Too many open files"))).__name__
    'OutOfFilesError'
    >>> lacking(ValueError("no price")) is None
    True
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OutOfResourceError):
            return seen
        if isinstance(seen, MemoryError):
            return OutOfMemoryError(str(seen) or "MemoryError")
        if isinstance(seen, OSError):
            for kind, (numbers, _) in _LACKING.items():
                # EAGAIN also comes from a socket without data, which is no lack.
                if seen.errno in numbers and (seen is error or seen.errno != errno.EAGAIN):
                    return kind(str(seen))
        elif found := lacking_in(str(seen)):
            return found
        seen = seen.__cause__ or seen.__context__
    return None


def exit_code_of(error: BaseException) -> ExitCode:
    """The exit code of a command that `error` ended.

    >>> exit_code_of(TopicMissingError("orders")).name
    'MISSING'
    >>> int(exit_code_of(KeyboardInterrupt()))
    130
    """
    match error:
        case CoopConsumerError():
            return error.exit_code
        case KeyboardInterrupt():
            return ExitCode.INTERRUPTED
        case _:
            found = lacking(error)
            return ExitCode.BROKEN if found is None else found.exit_code


def _place(topic: str, partition: int, key_range: KeyRange | None = None) -> str:
    if key_range is None or key_range == WHOLE:
        return f"{topic}-{partition}"
    return f"{topic}-{partition} keys [{key_range.lo}, {key_range.hi}]"


@dataclass(eq=False)
class MembershipError(FatalError):
    """A callback failed, or the broker gave an answer that no setting explains.

    `consequence` is a sentence that says what happens now.
    """

    group: str
    detail: str
    consequence: str

    exit_code = ExitCode.BROKEN

    def __str__(self) -> str:
        return (
            f"group {self.group}: {self.detail}. {self.consequence} This is a defect of the worker,"
            " this library or the broker: the error's cause tells which."
        )


@dataclass(eq=False)
class WorkerCallbackError(FatalError):
    """A range callback of the user's worker raised: its ranges cannot be processed safely."""

    callback: str
    topic: str
    partition: int
    detail: str

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition}: {self.callback} raised {self.detail}. This member "
            "processes nothing of it, commits finished records, and leaves; another member takes "
            "over. Correct the callback, or let it retry failures that may pass."
        )


@dataclass(eq=False)
class WorkerFlushError(FatalError):
    """The `flush` of the user's worker raised: it is not known which output is durable."""

    group: str
    detail: str

    exit_code = ExitCode.BROKEN

    def __str__(self) -> str:
        return (
            f"group {self.group}: flush raised {self.detail}. Records finished since the last "
            "successful flush are not committed: this member leaves, and the next owners of its "
            "ranges repeat them. Find out why the output was refused, then start the member again."
        )


@dataclass(eq=False)
class EventLoopStoppedError(FatalError):
    """The user's code stopped the event loop that its handlers run on."""

    group: str

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        return (
            f"group {self.group}: the worker's code stopped its event loop by loop.stop(). "
            "Running handlers finish, progress is committed, and this member leaves. To end a "
            "pool, call pool.close(); the loop ends with it."
        )


@dataclass(eq=False)
class WorkerMethodError(FatalError):
    """`setup` or `teardown` of the user's worker raised."""

    worker: str
    method: str
    detail: str

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        if self.method == "setup":
            now = "The group was not joined, and no record was processed"
        else:
            now = "Processed records are committed, and the member has left"
        return (
            f"worker {self.worker}: {self.method} raised {self.detail}. {now}. Correct "
            f"{self.method}, or let it retry failures that may pass."
        )
