"""The agreement of committed offset and log: every move, and the next act in every situation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coop_consumer.core.agreement import Agreement, AgreementState, Next
from offsets import Committed, PartitionStore
from tests.support.written_log import TOPIC_ID, WrittenLog
from tests.unit.core_member import T0

OPEN, DOUBTED, CONFIRMING, RESOLVING, BASING, AGREED = AgreementState
NOTHING, ASK, READ, TAG, RESOLVE, BASE = Next
TAGGED = Committed.mirror(7, 1, TOPIC_ID)
THEIRS = Committed(7, "theirs")


def log_of(*bases: tuple[int, int]) -> PartitionStore:
    log = WrittenLog()
    for epoch, offset in bases:
        log.base(epoch, offset)
    return log.store.partition(TOPIC_ID, 0)


def agreement_on(store: PartitionStore, *, leads: bool = True) -> Agreement:
    agreement = Agreement(T0, lambda: store)
    agreement.lead(leads=leads)
    return agreement


MOVES: dict[str, dict[AgreementState, AgreementState]] = {
    "reopen": {
        **dict.fromkeys([OPEN, DOUBTED, CONFIRMING, AGREED], OPEN),
        RESOLVING: RESOLVING,
        BASING: BASING,
    },
    "forget_log": {
        **dict.fromkeys([OPEN, DOUBTED, CONFIRMING], OPEN),
        RESOLVING: RESOLVING,
        BASING: BASING,
        AGREED: AGREED,
    },
    "adopt": dict.fromkeys([OPEN, DOUBTED, CONFIRMING, AGREED], AGREED),
    "resolving": dict.fromkeys([OPEN, DOUBTED, CONFIRMING], RESOLVING),
    "resolved": {RESOLVING: OPEN},
    "basing": dict.fromkeys([OPEN, DOUBTED, CONFIRMING, AGREED], BASING),
    "based": {BASING: OPEN},
}
VERBS: dict[str, Callable[[Agreement], object]] = {
    "reopen": Agreement.reopen,
    "forget_log": Agreement.forget_log,
    "adopt": Agreement.adopt,
    "resolving": Agreement.resolving,
    "resolved": Agreement.resolved,
    "basing": lambda agreement: agreement.basing(2),
    "based": Agreement.based,
}


@pytest.mark.parametrize("verb", MOVES)
@pytest.mark.parametrize("state", AgreementState)
def test_each_pair_of_state_and_event_moves_as_listed_or_breaks_i2(
    state: AgreementState, verb: str
) -> None:
    agreement = agreement_on(log_of((1, 7)))
    agreement.committed_read(TAGGED)
    agreement.state = state
    if state in MOVES[verb]:
        VERBS[verb](agreement)
        assert agreement.state is MOVES[verb][state]
    else:
        story = rf"I2: {T0}: .* in state {state.name}; epoch 0, committed .*, log epoch 1"
        with pytest.raises(AssertionError, match=story):
            VERBS[verb](agreement)


@pytest.mark.parametrize(
    ("bases", "committed", "leads", "acts"),
    [
        ([], None, True, [RESOLVE]),
        ([], None, False, [ASK]),
        ([], THEIRS, True, [READ, ASK, BASE]),
        ([], THEIRS, False, [ASK]),
        ([], TAGGED, True, [READ, ASK, BASE]),
        ([], TAGGED, False, [READ, ASK, BASE]),  # lost: anybody may say so
        ([(1, 7)], None, True, [TAG]),
        ([(1, 7)], None, False, [ASK]),
        ([(1, 7)], THEIRS, True, [TAG]),  # it began because of this offset
        ([(1, 0)], THEIRS, True, [READ, ASK, BASE]),
        ([(1, 0), (2, 3)], TAGGED, True, [TAG]),
        ([(1, 0)], TAGGED, True, [NOTHING]),
        ([(1, 0)], TAGGED, False, [NOTHING]),
    ],
)
def test_what_is_done_next_follows_from_offset_and_log(
    bases: list[tuple[int, int]], committed: Committed | None, leads: bool, acts: list[Next]
) -> None:
    agreement = agreement_on(log_of(*bases), leads=leads)
    assert agreement.next_act(0) is ASK, "nobody decides by an offset that was never seen"
    assert agreement.next_act(50) is NOTHING, "nor asks twice at once"
    for number, act in enumerate(acts):
        if agreement.is_asked:
            agreement.committed_read(committed)
        assert agreement.next_act(1_000 * (number + 1)) is act
    assert agreement.epoch == (1 if acts == [NOTHING] else 0)


def doubting(store: PartitionStore) -> Agreement:
    """The log was read again, and the offset is asked for once more."""
    agreement = agreement_on(store)
    for now_ms, act in enumerate([ASK, READ, ASK]):
        assert agreement.next_act(1_000 * now_ms) is act
        if act is ASK and not now_ms:
            agreement.committed_read(THEIRS)
    return agreement


def test_another_offset_at_the_second_look_begins_the_doubt_anew() -> None:
    agreement = doubting(log_of((1, 0)))
    agreement.committed_read(Committed(8, "theirs"))
    assert agreement.next_act(3_000) is READ
    assert agreement.state is DOUBTED


def test_an_offset_that_agrees_at_the_second_look_ends_the_doubt() -> None:
    agreement = doubting(log_of((1, 0)))
    agreement.committed_read(TAGGED)
    assert agreement.next_act(3_000) is NOTHING
    assert (agreement.state, agreement.epoch) == (AGREED, 1)


def test_an_answer_that_may_be_older_than_the_log_confirms_nothing() -> None:
    agreement = agreement_on(log_of((1, 0)))
    agreement.ask(0)
    agreement.committed_read(THEIRS)
    assert agreement.next_act(1_000) is READ
    agreement.ask(1_000)  # by who mirrors
    assert agreement.next_act(1_100) is NOTHING
    agreement.committed_read(THEIRS)
    assert agreement.next_act(1_200) is ASK
    agreement.committed_read(THEIRS)
    assert agreement.next_act(1_300) is BASE


def test_an_unanswered_question_is_asked_again_after_half_a_minute() -> None:
    agreement = agreement_on(log_of())
    assert agreement.next_act(0) is ASK
    assert agreement.next_act(30_000) is NOTHING
    assert agreement.next_act(30_100) is ASK


def test_an_epoch_that_the_log_has_lost_counts_again_if_the_log_has_it_after_all() -> None:
    stores = [log_of((1, 0))]
    agreement = Agreement(T0, lambda: stores[-1])
    agreement.committed_read(TAGGED)
    agreement.next_act(0)
    stores.append(log_of())
    agreement.forget_log()
    assert agreement.is_lost
    assert agreement.next_act(100) is ASK
    agreement.committed_read(TAGGED)
    assert [agreement.next_act(200), agreement.state] == [READ, DOUBTED]
    stores.pop()
    assert [agreement.next_act(300), agreement.state] == [NOTHING, AGREED]


@pytest.mark.parametrize(
    ("committed", "leads", "begins"),
    [(None, True, True), (None, False, False), (THEIRS, True, False)],
)
def test_the_first_epoch_begins_at_the_end_only_if_nothing_was_heard_meanwhile(
    committed: Committed | None, leads: bool, begins: bool
) -> None:
    agreement = agreement_on(log_of(), leads=leads)
    agreement.committed_read(None)
    agreement.resolving()
    agreement.committed_read(committed)
    assert agreement.resolved() is begins


def test_nothing_is_committed_while_an_epoch_is_on_its_way() -> None:
    agreement = agreement_on(log_of())
    agreement.basing(1)
    with pytest.raises(AssertionError, match=r"I2: .* commits while BASING"):
        agreement.committing()


def test_a_cut_off_is_told_once_and_not_while_something_is_under_way() -> None:
    agreement = agreement_on(log_of((1, 0)))
    agreement.cut_off(1, 5)
    agreement.basing(2)
    assert agreement.take_cut() is None
    agreement.based()
    assert [agreement.take_cut(), agreement.take_cut()] == [5, None]
    agreement.cut_off(2, 5)
    assert agreement.take_cut() is None, "others have begun the next epoch"


def test_of_an_epoch_only_the_first_tenure_is_news() -> None:
    agreement = agreement_on(log_of((1, 0)))
    agreement.committed_read(TAGGED)
    agreement.adopt()
    assert [agreement.begun(), agreement.begun()] == [True, False]
    assert not agreement.follows_a_loss
    agreement.basing(1, is_lost=True)
    assert agreement.follows_a_loss
