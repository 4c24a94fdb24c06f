"""Do the errors say where, what now and what to do, and survive the way to another process?"""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable

import pytest

from assignors.key_range import KeyRange
from coop_consumer import errors
from coop_consumer.errors import CoopConsumerError, ExitCode, exit_code_of

LOWER_HALF = KeyRange(0, 4611686018427387902)

EXAMPLES: dict[type[CoopConsumerError], CoopConsumerError] = {
    type(error): error
    for error in (
        errors.BrokerUnreachableError("kafka-1:9092", "connection refused"),
        errors.TokenUnavailableError("auth:token", "it raised TimeoutError: 5 s"),
        errors.MemberLostError("billing", "M1", "unknown member id"),
        errors.MemberSilentError("billing", "M1", 2.5),
        errors.AppendAbortedError("orders", 3, "timed out"),
        errors.AppendInDoubtError("orders", 3, bytes(16), "timed out"),
        errors.TransactionDroppedError("billing", "m1"),
        errors.LogBlockedError(
            "orders", 3, 17, "transactional.id a", 60, "Nobody ends it.", "end.sh"
        ),
        errors.LogTokenError("orders", 3, "names offset -7"),
        errors.AppendTooLargeError("orders", 3, 200_000, 1_000, 100_000, 64 << 20),
        errors.SnapshotError("orders-snapshots", 3, "is of another topic", "Delete it"),
        errors.LogRecreatedError("orders", 3),
        errors.StateMachineError("orders", 3, "apply", "ValueError: no price"),
        errors.BulkLoadConflictError("orders", 3, "import", 99, 17),
        errors.TransactionAbortedError("billing", "topic totals: a broker is away"),
        errors.IndividualCommitTooOldError("orders", 3, LOWER_HALF, last=41, stable=43),
        errors.MaxIndividualCommitReachedError(
            "orders", 3, LOWER_HALF, held=60_000, limit=60_000, command="coop-consumer status g"
        ),
        errors.ConfigError("commit.interval.ms", "=1 is below 5", "Choose 5 or more"),
        errors.GroupIdMissingError(),
        errors.UnexpectedAnswerError("topic orders", "Broker: Unknown error"),
        errors.MembershipError("billing", "on_joining raised ValueError", "It has left the group."),
        errors.WorkerImportError("jobs:Billing", "no module named 'jobs'"),
        errors.MisuseError("poll()", "the consumer is closed", "Make a new one"),
        errors.BatchConflictError("billing", 17, "was written by others", "Name it anew"),
        errors.OffsetUnknownError("billing", "orders", 3, "offsets-0", 77),
        errors.OffsetsPartlyStoredError("billing", "orders-3", "totals-0", "no such topic"),
        errors.LogConflictError("splitter", "lines-0 offset 41", "is not its own", "Find out"),
        errors.TopicMissingError("orders", "written", 7),
        errors.ProgressTopicError(
            "__individual_commit_offsets", "cleanup.policy is delete", "Set it to compact"
        ),
        errors.ProgressLogLostError("__individual_commit_offsets", "was deleted"),
        errors.LogWriterBrokenError("__individual_commit_offsets", "can no longer be written to"),
        errors.LogLostForGoodError(
            "__individual_commit_offsets-billing", "was deleted", "Reset it"
        ),
        errors.NoTransactionsError("kafka-1:9092", "transactional.id coop-1", "timed out"),
        errors.ChangelogError("billing-orders-state", "does not exist", "Create it"),
        errors.RecordTooLargeError("orders.dlq", "Message size too large"),
        errors.OutOfResourceError("limit reached"),
        errors.DiskFullError("[Errno 28] No space left on device"),
        errors.OutOfFilesError("[Errno 24] Too many open files"),
        errors.OutOfMemoryError("[Errno 12] Cannot allocate memory"),
        errors.OutOfThreadsError("can't start new thread"),
        errors.RecordRefusedError("orders.dlq", "Invalid timestamp", "set the clock right"),
        errors.AuthorizationError("topic orders", "read", "alice"),
        errors.ForeignProtocolError("billing"),
        errors.ContractMismatchError("M2", "ordering=none", "ordering=key"),
        errors.VersionMismatchError("M2", "subscription: version 3 is newer than 2"),
        errors.ClientVersionError("M2", "librdkafka 3.0 writes it in another form"),
        errors.IndividualCommitNotAllowedError("billing", "M1", "orders", 3, LOWER_HALF),
        errors.TopicRangeFetchNotAllowedError("billing", "M1", "orders", 3, LOWER_HALF),
        errors.ConsumerRangeFetchNotAcceptedError("billing", "M1", "orders", 3, LOWER_HALF),
        errors.ProcessingStoppedError(
            "orders", 3, 42, "ValueError: no price", "M1", "coop-consumer skip g orders-3 42"
        ),
        errors.DataLossError("orders", 3, LOWER_HALF, 40, 99, "stop"),
        errors.InputGoneError("counter", "orders", 3, 40, 100, 200),
        errors.HandlerOverdueError("orders", 3, LOWER_HALF, 42, b"k7", 312_000, "exit"),
        errors.TopicRecreatedError("orders", "stop"),
        errors.FencedError("M1", "billing-1"),
        errors.PublisherFencedError("billing-3", "a newer producer has begun"),
        errors.WorkerCallbackError("on_ranges_assigned", "orders", 3, "OSError('disk full')"),
        errors.WorkerMethodError("Billing", "setup", "OSError: no database"),
        errors.EventLoopStoppedError("billing"),
        errors.WorkerFlushError("billing", "KafkaException('message timed out')"),
    )
}


def pickled(error: CoopConsumerError) -> CoopConsumerError:
    arrived: CoopConsumerError = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes
    return arrived


def leaves() -> list[type[CoopConsumerError]]:
    """Every class that is raised: those that make a text of their own, or inherit one."""
    groups = {
        CoopConsumerError,
        errors.RetriableError,
        errors.SetupError,
        errors.FatalError,
    }
    classes = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, CoopConsumerError)
    ]
    return [value for value in classes if value not in groups]


def test_every_error_has_an_example_here() -> None:
    assert set(leaves()) == set(EXAMPLES)


@pytest.mark.parametrize("error", EXAMPLES.values(), ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("passed_on", [pickled, copy.copy])
def test_an_error_survives_the_way_to_another_process(
    error: CoopConsumerError, passed_on: Callable[[CoopConsumerError], CoopConsumerError]
) -> None:
    error.add_note("seen at host-7")

    arrived = passed_on(error)

    assert type(arrived) is type(error)
    assert arrived is not error
    assert str(arrived) == str(error)
    assert repr(arrived) == repr(error)
    assert arrived.__notes__[-1] == "seen at host-7"


@pytest.mark.parametrize("error", EXAMPLES.values(), ids=lambda error: type(error).__name__)
def test_a_text_is_made_of_sentences_and_says_all_its_fields(error: CoopConsumerError) -> None:
    text = str(error)

    assert text.endswith(".")
    assert text.count(". ") >= 1, "what failed is one sentence, what to do another"
    for name, value in vars(error).items():
        if name != "__notes__":
            assert str(value) in text, f"{name} is not told"


@pytest.mark.parametrize("error", EXAMPLES.values(), ids=lambda error: type(error).__name__)
def test_the_caller_can_tell_by_the_class_what_to_do(error: CoopConsumerError) -> None:
    kinds = (errors.RetriableError, errors.SetupError, errors.FatalError)

    assert sum(isinstance(error, kind) for kind in kinds) == 1


def test_the_numbers_of_the_kip_are_kept() -> None:
    numbers = {error.code: kind.__name__ for kind, error in EXAMPLES.items() if error.code}

    assert numbers == {
        88: "IndividualCommitNotAllowedError",
        89: "TopicRangeFetchNotAllowedError",
        90: "ConsumerRangeFetchNotAcceptedError",
        91: "IndividualCommitTooOldError",
        92: "MaxIndividualCommitReachedError",
    }
    assert all(
        f"({code})" in str(EXAMPLES[getattr(errors, name)]) for code, name in numbers.items()
    )


def test_a_refused_range_prints_as_documented() -> None:
    error = errors.TopicRangeFetchNotAllowedError("billing", "M1", "orders", 3, LOWER_HALF)

    assert str(error) == (
        "group billing, member M1, orders-3 keys [0, 4611686018427387902]: not consumed, topic "
        "policy accept.range.fetch=false (89). Assign the whole partition or change the policy."
    )


def test_data_loss_under_warn_says_that_the_member_goes_on() -> None:
    text = str(errors.DataLossError("orders", 3, LOWER_HALF, 40, 99, "warn"))

    assert "continues behind 99 (on.data.loss=warn)" in text
    assert "stops" not in text


def test_a_dynamic_member_is_fenced_without_an_instance_id() -> None:
    assert "group.instance.id" not in str(errors.FencedError("M1"))


def test_the_tree_in_the_documentation_is_the_tree_of_the_classes() -> None:
    drawn = [
        ((len(line) - len(line.lstrip(" │├└─"))) // 4, line.lstrip(" │├└─").split()[0])
        for line in (errors.__doc__ or "").splitlines()
        if "── " in line or line.strip() == "CoopConsumerError"
    ]

    path: list[str] = []
    for depth, name in drawn:
        path[depth - 1 :] = [name]
        bases = [base.__name__ for base in getattr(errors, name).__mro__]
        expected = [*reversed(path)]
        assert bases[: len(expected)] == expected
    assert {name for _, name in drawn} >= {kind.__name__ for kind in leaves()}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EXAMPLES[errors.BrokerUnreachableError], ExitCode.UNAVAILABLE),
        (EXAMPLES[errors.GroupIdMissingError], ExitCode.USAGE),
        (EXAMPLES[errors.WorkerImportError], ExitCode.USAGE),
        (EXAMPLES[errors.TopicMissingError], ExitCode.MISSING),
        (EXAMPLES[errors.AuthorizationError], ExitCode.UNAUTHORIZED),
        (EXAMPLES[errors.ProcessingStoppedError], ExitCode.STOPPED),
        (EXAMPLES[errors.DataLossError], ExitCode.STOPPED),
        (EXAMPLES[errors.ForeignProtocolError], ExitCode.CONFLICT),
        (EXAMPLES[errors.FencedError], ExitCode.CONFLICT),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (AssertionError("I1: ranges overlap"), ExitCode.BROKEN),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_command_ends_with_the_code_of_its_error(error: BaseException, code: ExitCode) -> None:
    assert exit_code_of(error) is code


def test_exit_codes_keep_their_numbers_and_tell_their_meaning() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "OK": 0,
        "BROKEN": 1,
        "USAGE": 2,
        "UNAVAILABLE": 3,
        "UNAUTHORIZED": 4,
        "STOPPED": 5,
        "MISSING": 6,
        "CONFLICT": 7,
        "OVERDUE": 8,
        "DISK_FULL": 9,
        "FILES": 10,
        "MEMORY": 11,
        "THREADS": 12,
        "INTERRUPTED": 130,
    }
    assert all(code.meaning.endswith(".") for code in ExitCode)


@pytest.mark.parametrize(
    ("resource", "command"),
    [
        ("topic orders, totals", "--operation Read --topic orders --topic totals)"),
        ("group one, two", "--operation Read --group 'one, two')"),
    ],
)
def test_a_missing_right_names_the_command_that_grants_it(resource: str, command: str) -> None:
    told = str(errors.AuthorizationError(resource, "read", "ann"))
    assert f"--allow-principal User:ann {command}, or correct the security settings." in told


def test_the_id_of_one_run_is_granted_by_no_command() -> None:
    assert "kafka-acls" not in str(errors.AuthorizationError("transactional.id coop-g-1", "write"))
