"""The watch of the topics, with the clock and the broker's answers in the test's hand."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import pytest

from coop_consumer.config import TopicChoice
from coop_consumer.errors import BrokerUnreachableError, ProgressLogLostError
from coop_consumer.kafka.topics import TopicFacts
from coop_consumer.member.topic_watch import PAUSE_MS, TopicWatch

OLD, NEW, PROGRESS = (TopicFacts(bytes([n]) * 16, 3) for n in (1, 2, 9))
WIDER = TopicFacts(OLD.id, 5)
INTERVAL_MS = 10_000


class Table:
    """A watch of `orders` and `progress`, and what it has told."""

    def __init__(self) -> None:
        self.looks: list[set[str]] = []
        self.changes: list[Mapping[str, TopicFacts]] = []
        self.lost: list[ProgressLogLostError] = []
        self.missing: list[str] = []
        self.matches: list[tuple[set[str], set[str]]] = []
        self.now_ms = 0
        self.watch = TopicWatch(
            known={"orders": OLD},
            choice=TopicChoice(frozenset({"orders"})),
            progress="progress",
            progress_facts=PROGRESS,
            interval_ms=INTERVAL_MS,
            look=self.look,
            listener=self,
            group="billing",
        )

    def look(self, names: Collection[str]) -> None:
        self.looks.append(set(names))

    def on_topics_changed(self, topics: Mapping[str, TopicFacts]) -> None:
        self.changes.append(topics)

    def on_matches_changed(self, came: Mapping[str, TopicFacts], gone: Collection[str]) -> None:
        self.matches.append((set(came), set(gone)))

    def on_topic_missing(self, topic: str) -> None:
        self.missing.append(topic)

    def on_progress_lost(self, error: ProgressLogLostError) -> None:
        self.lost.append(error)

    def after(self, ms: int) -> int:
        """Time passes; how many looks were begun so far."""
        self.now_ms += ms
        self.watch.step(self.now_ms)
        return len(self.looks)

    def see(self, orders: TopicFacts | None = OLD, progress: TopicFacts | None = PROGRESS) -> None:
        """The next look that is due finds this."""
        begun = len(self.looks)
        assert self.after(INTERVAL_MS) == begun + 1
        self.watch.seen({"orders": orders, "progress": progress})


@pytest.fixture
def table() -> Table:
    return Table()


def test_it_looks_at_once_and_then_at_its_interval(table: Table) -> None:
    assert table.after(0) == 1
    assert table.looks == [{"orders", "progress"}]
    assert table.after(INTERVAL_MS * 3) == 1, "the answer has not come"
    table.watch.seen({"orders": OLD, "progress": PROGRESS})
    assert table.after(0) == 2
    table.watch.seen({"orders": OLD, "progress": PROGRESS})
    assert table.after(INTERVAL_MS - 1) == 2
    assert table.after(1) == 3
    assert (table.changes, table.lost) == ([], [])


def test_a_doubt_brings_the_look_forward_but_never_floods_the_broker(table: Table) -> None:
    table.see()
    table.watch.look_soon()
    assert table.after(PAUSE_MS - 1) == 1
    table.watch.look_soon()
    assert table.after(1) == 2


def test_who_asks_while_a_look_is_under_way_is_answered_by_the_next_one(table: Table) -> None:
    table.after(0)
    told: list[str] = []
    table.watch.look_soon(lambda: told.append("now"))
    table.watch.seen({"orders": OLD, "progress": PROGRESS})
    assert told == []
    assert table.after(PAUSE_MS) == 2
    table.watch.seen({"orders": OLD, "progress": PROGRESS})
    assert told == ["now"]


def test_who_asks_is_answered_after_the_change_was_told(table: Table) -> None:
    told: list[int] = []
    table.watch.look_soon(lambda: told.append(len(table.changes)))
    table.see(NEW)
    assert told == [1]


@pytest.mark.parametrize("now", [NEW, WIDER], ids=["made again", "more partitions"])
def test_a_change_is_told_once(table: Table, now: TopicFacts) -> None:
    table.see(now)
    table.see(now)
    assert table.changes == [{"orders": now}]


def test_a_deleted_topic_is_named_once_and_told_when_it_is_there_again(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        table.see(None)
    assert (table.changes, table.missing) == ([], ["orders"])
    table.see(NEW)
    assert table.changes == [{"orders": NEW}]
    assert [r.message.partition(".")[0] for r in caplog.records] == [
        "group billing, topic orders: does not exist any more",
        "group billing, topic orders: exists again",
    ]


def test_a_topic_that_a_broker_did_not_know_for_a_moment_is_told_too(table: Table) -> None:
    """The group's leader has dealt it out to nobody meanwhile, and has to look again."""
    table.see(None)
    table.see(OLD)
    assert table.changes == [{"orders": OLD}]


def test_a_progress_topic_is_lost_when_two_looks_in_a_row_miss_it(table: Table) -> None:
    table.see(progress=None)
    table.see()
    table.see(progress=None)
    assert table.lost == []
    assert table.watch.due_ms == table.now_ms + PAUSE_MS
    table.after(PAUSE_MS)
    table.watch.seen({"orders": OLD, "progress": None})
    assert "progress topic progress: was deleted" in str(table.lost[0])


@pytest.mark.parametrize(
    ("now", "problem"),
    [(NEW, "deleted and made again"), (TopicFacts(PROGRESS.id, 4), "4 partitions, and had 3")],
)
def test_another_progress_topic_is_told_once_and_nothing_after_it(
    table: Table, now: TopicFacts, problem: str
) -> None:
    table.see(progress=now)
    (error,) = table.lost
    assert problem in str(error)
    table.watch.look_soon()
    assert table.after(INTERVAL_MS) == 1


def test_a_look_that_fails_changes_nothing_and_is_told_once(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    table.watch.look_soon(lambda: told.append("now"))
    for _ in range(2):
        table.after(INTERVAL_MS)
        table.watch.seen(BrokerUnreachableError("b:9092", "timed out"))
    assert told == ["now"], "whoever waits goes on by what is known"
    assert (table.changes, table.lost) == ([], [])
    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == 1


def test_other_topics_are_watched_once_the_subscription_has_changed(table: Table) -> None:
    table.after(0)
    table.watch.watch({"bills": OLD}, TopicChoice(frozenset({"bills"})))
    table.watch.seen({"orders": NEW, "progress": PROGRESS})
    assert table.changes == []
    table.after(INTERVAL_MS)
    assert table.looks[-1] == {"bills", "progress"}


def test_a_topic_that_one_broker_has_not_heard_of_is_looked_at_again_before_it_is_called_missing(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """On three brokers, the first look of a new member may ask the one that learns last."""
    table.after(0)
    table.watch.seen({"orders": None, "progress": PROGRESS})
    assert table.after(PAUSE_MS) == 2, "it does not wait for the interval"
    table.watch.seen({"orders": OLD, "progress": PROGRESS})
    assert caplog.messages == []


def test_a_broker_that_has_not_heard_of_new_partitions_takes_none_away(table: Table) -> None:
    table.see(WIDER)
    table.see(OLD)
    table.see(WIDER)
    assert table.changes == [{"orders": WIDER}]


def test_a_broker_that_still_knows_the_former_topic_brings_it_not_back(table: Table) -> None:
    table.see(NEW)
    table.see(OLD)
    table.see(NEW)
    assert table.changes == [{"orders": NEW}]


def test_a_broker_that_knows_fewer_partitions_of_the_progress_topic_loses_it_not(
    table: Table,
) -> None:
    table.see(progress=TopicFacts(PROGRESS.id, PROGRESS.partitions - 1))
    assert table.lost == []


# -- topics by pattern -----------------------------------------------------------------------------

CHOICE = TopicChoice(frozenset({"orders"}), ("^b",), r".*[.]dlq")
BILLS = TopicFacts(b"b" * 16, 2)


class Patterns(Table):
    """A watch of `orders`, and of what begins with b."""

    def __init__(self) -> None:
        super().__init__()
        self.watch.watch({"orders": OLD}, CHOICE)

    def find(self, **others: TopicFacts | None) -> list[tuple[set[str], set[str]]]:
        """The next look that is due finds these beside the known ones; what has changed by it."""
        begun, before = len(self.looks), len(self.matches)
        assert self.after(INTERVAL_MS) == begun + 1
        self.watch.seen({"orders": OLD, "progress": PROGRESS, **others})
        return self.matches[before:]


def test_what_matches_comes_and_is_looked_at_from_then_on() -> None:
    table = Patterns()
    assert table.find(bills=BILLS, **{"b.dlq": NEW, "others": NEW}) == [({"bills"}, set())]
    assert table.find(bills=BILLS) == []
    assert table.looks[-1] == {"orders", "bills", "progress"}


def test_what_matched_goes_calmly_once_two_looks_have_missed_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    table = Patterns()
    table.find(bills=BILLS)
    assert table.find(bills=None) == [], "another broker may know it"
    assert table.watch.due_ms == table.now_ms + PAUSE_MS
    assert table.find(bills=None) == [(set(), {"bills"})]
    assert table.find() == []
    assert table.looks[-1] == {"orders", "progress"}
    assert [it.levelname for it in caplog.records] == []
    assert table.find(bills=NEW) == [({"bills"}, set())], "it comes again, as another topic"
    assert (table.changes, table.lost) == ([], [])


def test_what_one_broker_has_missed_stays() -> None:
    table = Patterns()
    table.find(bills=BILLS)
    table.find(bills=None)
    assert table.find(bills=BILLS) == []
    assert table.find(bills=None) == []


def test_a_match_that_is_made_again_between_two_looks_has_gone_and_come() -> None:
    table = Patterns()
    table.find(bills=BILLS)
    assert table.find(bills=NEW) == [({"bills"}, {"bills"})]
    assert table.find(bills=BILLS) == [], "a broker that knows less"
    assert table.find(bills=NEW) == []
    assert table.changes == []


def test_a_match_that_gets_partitions_is_a_change() -> None:
    table = Patterns()
    table.find(bills=BILLS)
    wider = TopicFacts(BILLS.id, 9)
    assert table.find(bills=wider) == []
    assert table.changes == [{"bills": wider}]


def test_a_named_topic_that_matches_too_stays_a_named_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = Patterns()
    table.watch.watch({"bank": OLD}, TopicChoice(frozenset({"bank"}), ("^b",)))
    for _ in range(3):
        assert table.find(bank=None, orders=None) == []
    assert "topic bank: does not exist any more" in caplog.text


def test_a_look_at_topics_of_an_earlier_choice_brings_none_of_them() -> None:
    table = Patterns()
    table.after(INTERVAL_MS)
    table.watch.watch({}, TopicChoice(frozenset(), ("^x",)))
    table.watch.seen({"orders": OLD, "bills": BILLS, "progress": PROGRESS})
    assert table.matches == []
