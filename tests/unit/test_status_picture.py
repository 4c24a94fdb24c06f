"""The picture and the JSON of a status: what a person and a program see."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from assignors import WHOLE, TopicPartition, key_hash
from coop_consumer.core.policies import Policies
from coop_consumer.plain_text import shortened
from coop_consumer.status.as_json import as_json
from coop_consumer.status.load import GroupLoad, KeyWork, MemberWork
from coop_consumer.status.model import (
    GroupStatus,
    PartitionStatus,
    PendingHandover,
    RangeOwner,
    RecordStatus,
)
from coop_consumer.status.picture import Picture
from coop_consumer.status.remaining import Remaining
from coop_consumer.status.seen import MemberSeen
from coop_consumer.status.standing import RecordState
from offsets import Meaning, OffsetRange, RangeProgress, TenureId

NOW_MS = 1_700_000_000_000
ORDERS = TopicPartition("orders", 1)
LOW, HIGH = WHOLE.parts(2)
NOTHING_LEFT = Remaining(0, 0)
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "cli.md"

PARKED = RecordStatus(
    offset=43,
    key=b"N14228",
    is_read=True,
    key_hash=key_hash(b"N14228"),
    timestamp_ms=NOW_MS - 7_500_000,
    attempts=5,
    is_parked=True,
    error="ValueError: no such plane",
    since_ms=NOW_MS - 61_000,
    member="alpha",
    host="host-1",
    standing=RecordState.PARKED,
)

PARTITION = PartitionStatus(
    tp=ORDERS,
    epoch=2,
    next_epoch=3,
    meaning=Meaning.AGREED,
    begin=0,
    end=60,
    floor=0,
    stable=43,
    committed=40,
    metadata="coop:2",
    lag=20,
    remaining=Remaining(3, 9),
    gaps=(OffsetRange(45, 47),),
    progress=(RangeProgress(LOW, 43, (OffsetRange(45, 47),)), RangeProgress(HIGH, 60)),
    owners=(
        RangeOwner(LOW, "alpha", "host-1", 43, Remaining(3, 9)),
        RangeOwner(HIGH, "beta", "host-2", 60, NOTHING_LEFT),
    ),
    unowned=(),
    handovers=(PendingHandover((HIGH,), "beta", "alpha", TenureId("alpha", 1, 1), NOW_MS - 3_000),),
    holder=PARKED,
    failed=(PARKED,),
)

MEMBERS = (
    MemberSeen("alpha", "host-1", 16, {ORDERS: (LOW,)}, leads=True),
    MemberSeen("beta", "host-2", 16, {ORDERS: (HIGH,)}),
)

STATUS = GroupStatus(
    "flights",
    "Stable",
    "keyrange",
    NOW_MS,
    MEMBERS,
    (PARTITION,),
    {},
    ("Look!",),
    Policies(frozenset({"orders"}), group=True),
    load=GroupLoad(
        (MemberWork("alpha", NOW_MS, 16, 0.62, 5_000, 1_210),),
        keys=(KeyWork(ORDERS, key_hash(b"N14228"), b"N14228", 0.61, "alpha"),),
    ),
)


def draw(
    status: GroupStatus,
    *,
    width: int = 80,
    colour: bool = False,
    encoding: str = "utf-8",
    shows_all: bool = False,
) -> list[str]:
    page = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(
        file=page, width=width, force_terminal=colour, color_system="standard" if colour else None
    )
    console.print(Picture(status, shows_all=shows_all), crop=False)
    page.flush()
    page.seek(0)
    return page.read().splitlines()


def bar(lines: list[str]) -> str:
    [line] = [line for line in lines if line.startswith("orders-1 ") and "left" in line]
    return line


def test_the_picture_fits_80_columns_and_needs_no_colour() -> None:
    lines = draw(STATUS)
    assert max(len(line) for line in lines if "coop-consumer" not in line) <= 80
    assert "\x1b" not in "".join(lines)
    assert lines[0].startswith("group flights  Stable  2 members  at least once  ✗ 1 record parked")


def test_a_parked_record_is_marked_where_its_key_lies() -> None:
    found = re.search(r"▕(.*)▏", bar(draw(STATUS)))
    assert found is not None
    cells = found[1]
    assert cells.index("✗") == PARKED.key_hash * len(cells) // WHOLE.hi
    assert cells.count("✗") == 1


def test_shades_tell_how_far_each_slice_is() -> None:
    begun = replace(PARTITION, failed=(), holder=None)
    found = re.search(r"▕(.*)▏", bar(draw(replace(STATUS, partitions=(begun,)))))
    assert found is not None
    half = len(found[1]) // 2
    assert set(found[1][:half]) == {"▓"}
    assert set(found[1][half:]) == {"█"}


def test_letters_tell_the_owners_and_waiting_keys_are_marked() -> None:
    lines = draw(STATUS)
    owners = lines[lines.index(bar(lines)) + 1].strip()
    assert re.fullmatch(r"A─+B~+", owners)
    assert [line for line in lines if line.startswith("A  alpha  host-1")]
    [handover] = [line for line in lines if line.startswith("~ ")]
    assert "B waits for A, 50% of the keys, since 3 s" in handover


def test_the_parked_record_is_told_with_its_story() -> None:
    text = " ".join(" ".join(draw(STATUS, width=300)).split())
    assert (
        "✗ orders-1 offset 43: key N14228, holds the stable offset, produced 2 h 5 min ago, parked "
        "after 5 attempts, failing for 1 min 1 s, at A (host-1), ValueError: no such plane"
    ) in text
    assert "! Look!" in text


def test_an_error_that_was_cut_ends_the_line_with_its_dots() -> None:
    """It was `it cannot continue..,` before the name of the member."""
    cut = shortened("OSError: it cannot continue, as calls fail", 31)
    lines = picture_of(replace(PARKED, error=cut))
    assert [it for it in lines if it.endswith("at A (host-1), OSError: it cannot continue...")]


def picture_of(record: RecordStatus, **changed: Any) -> list[str]:
    partition = replace(PARTITION, failed=(record,), holder=record)
    return draw(replace(STATUS, partitions=(partition,), **changed), width=300)


def story_of(record: RecordStatus) -> str:
    [line] = [line for line in picture_of(record) if "orders-1 offset 43" in line and ":" in line]
    return line.partition("holds the stable offset, produced 2 h 5 min ago, ")[2].strip()


def test_the_commands_for_a_parked_record_are_ready_to_paste() -> None:
    options = ("--bootstrap", "b:9092")
    lines = picture_of(PARKED, group="my group", options=options)
    told = [line[line.index("coop-consumer") :] for line in lines if "coop-consumer" in line]
    assert told == [
        "coop-consumer retry 'my group' orders-1 43 --bootstrap b:9092",
        "coop-consumer skip 'my group' orders-1 43 --bootstrap b:9092",
    ]
    for width in (60, 80):
        assert [x for x in draw(STATUS, width=width) if x.endswith("retry flights orders-1 43")]


FRESH = replace(PARKED, attempts=0, is_parked=False, error="", since_ms=0)
FAILED = replace(PARKED, attempts=2, is_parked=False, standing_since_ms=NOW_MS - 1_000)
OVERDUE = replace(FAILED, attempts=1, error="HandlerOverdueError: orders-1 offset 43: its handler")


@pytest.mark.parametrize(
    ("record", "standing", "told"),
    [
        (FRESH, RecordState.RUNNING, "its handler runs for 5 s, at A (host-1)"),
        (FRESH, RecordState.QUEUED, "waits for 5 s for a worker, at A (host-1)"),
        (FRESH, RecordState.PAUSED, "its partition is paused for 5 s, at A (host-1)"),
        (FRESH, RecordState.UNOWNED, "nobody owns its key, at A (host-1)"),
        (FRESH, RecordState.UNTOLD, "at A (host-1)"),
        (FAILED, RecordState.BACKING_OFF, "backs off after 2 attempts, failing for 1 min 1 s, at"),
        (FAILED, RecordState.RETRYING, "failed 2 times, is tried again, failing for 1 min 1 s, a"),
        (FAILED, RecordState.RUNNING, "its handler runs for 5 s, failing for 1 min 1 s, at A ("),
        (OVERDUE, RecordState.RUNNING,
         "its handler runs for 5 s, longer than max.processing.ms allows, on.overdue decides"),
    ],
)  # fmt: skip
def test_what_becomes_of_a_record_is_told_with_its_time(
    record: RecordStatus, standing: RecordState, told: str
) -> None:
    stands = replace(record, standing=standing, standing_since_ms=NOW_MS - 5_000)
    assert story_of(stands).startswith(told)


def test_a_record_whose_handler_hangs_has_the_command_that_shows_the_record() -> None:
    hangs = replace(OVERDUE, standing=RecordState.RUNNING)
    [line] = [line for line in picture_of(hangs) if "coop-consumer" in line]
    assert line.strip() == (
        "to look at it:  coop-consumer read orders --partition 1 --from 43 --count 1"
    )


def test_a_record_that_waits_for_its_range_names_who_holds_it_and_the_way_out() -> None:
    waits = replace(
        FRESH, standing=RecordState.WAITING, standing_since_ms=NOW_MS - 5_000, behind="alpha"
    )
    assert story_of(waits).startswith("waits for 5 s for its range, which A still holds")
    [command] = [line for line in picture_of(waits) if "coop-consumer" in line]
    assert command.endswith("coop-consumer release flights orders-1 --holder alpha")


def test_a_record_whose_handler_hangs_at_its_last_owner_says_so_with_both_ways_on() -> None:
    waits = replace(
        OVERDUE, standing=RecordState.WAITING, standing_since_ms=NOW_MS - 5_000, behind="alpha"
    )
    assert story_of(waits).startswith(
        "waits for 5 s for its handler, which is overdue at A, on.overdue decides there, the log "
        "of A has its stack, at "
    )
    first, second = [line for line in picture_of(waits) if "coop-consumer" in line]
    assert first.endswith("coop-consumer read orders --partition 1 --from 43 --count 1")
    assert second.endswith("coop-consumer release flights orders-1 --holder alpha")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_a_terminal_cannot_show_is_replaced(encoding: str) -> None:
    odd = replace(PARKED, key="ключ-é".encode(), error="потеря \udcff", host="хост\x9b")
    partition = replace(PARTITION, failed=(odd,), holder=odd)
    status = replace(STATUS, partitions=(partition,), group="группа", warnings=("внимание…",))
    text = "\n".join(draw(status, width=300, encoding=encoding))
    shown = "ключ-é" if encoding == "utf-8" else r"\u043a\u043b\u044e\u0447-"
    assert f"key {shown}" in text
    assert r"\x9b" in text
    assert r"\udcff" in text


def test_no_control_character_is_in_the_json() -> None:
    odd = replace(PARKED, key=b"a\x1b[31m", error="\x9b2J", host="h\r", member="m\x07")
    member = MemberSeen("m\x07", "h\r", 1, note="\x1b")
    partition = replace(PARTITION, failed=(odd,), holder=odd)
    status = replace(
        STATUS,
        members=(member,),
        partitions=(partition,),
        warnings=("\x1b",),
        unreadable={"\x00": 1},
    )
    texts = json.dumps(as_json(status), ensure_ascii=False)
    assert "\\u00" not in texts  # as JSON writes them
    assert texts.isprintable()
    assert as_json(status)["partitions"][0]["failed"][0]["key"] == r"a\x1b[31m"


def test_parked_is_red_and_what_goes_on_is_not() -> None:
    red = "\x1b[1;31m"
    assert f"{red}✗" in "".join(draw(STATUS, colour=True))
    healthy = replace(PARTITION, failed=(), holder=None)
    assert red not in "".join(draw(replace(STATUS, partitions=(healthy,)), colour=True))


def test_a_terminal_without_unicode_gets_plain_characters() -> None:
    lines = draw(STATUS, encoding="ascii")
    assert all(line.isascii() for line in lines)
    assert "X" in bar(lines)
    assert "#" in bar(lines)


def test_a_long_topic_name_keeps_its_end_with_the_partition() -> None:
    long = replace(PARTITION, tp=TopicPartition("orders-of-all-customers-of-europe", 12))
    lines = draw(replace(STATUS, partitions=(long,)))
    assert max(len(line) for line in lines if "coop-consumer" not in line) <= 80
    assert any(line.startswith("..omers-of-europe-12") and "left" in line for line in lines)


@pytest.mark.parametrize("members", [60, 300])
def test_more_members_than_letters_or_columns_are_drawn_all_the_same(members: int) -> None:
    parts = WHOLE.parts(members)
    owners = tuple(
        RangeOwner(part, f"m{i:03}", "h", 43, NOTHING_LEFT) for i, part in enumerate(parts)
    )
    seen = tuple(MemberSeen(f"m{i:03}", "h", 1) for i in range(members))
    status = replace(STATUS, members=seen, partitions=(replace(PARTITION, owners=owners),))
    assert max(len(line) for line in draw(status) if "coop-consumer" not in line) <= 80


def test_a_key_that_is_no_text_is_shown_escaped() -> None:
    odd = replace(PARKED, key=b"\xff\x1b[31m")
    status = replace(STATUS, partitions=(replace(PARTITION, failed=(odd,), holder=odd),))
    text = "".join(draw(status, width=300))
    assert "\x1b" not in text
    assert r"\xff" in text


@pytest.mark.parametrize(
    ("key", "is_read", "told"),
    [(None, True, "no key"), (b"", True, 'key ""'), (b"none", True, "key none"),
     (None, False, "key not read")],
)  # fmt: skip
def test_no_key_an_empty_one_and_one_that_was_not_read_are_told_apart(
    key: bytes | None, is_read: bool, told: str
) -> None:
    odd = replace(PARKED, key=key, is_read=is_read)
    status = replace(STATUS, partitions=(replace(PARTITION, failed=(odd,), holder=odd),))
    assert f"offset 43: {told}, holds the stable offset" in "".join(draw(status, width=300))


def test_names_and_errors_of_others_are_neither_markup_nor_obeyed() -> None:
    odd = replace(PARKED, error="\x1b[2Jgone", host="[red]h\r")
    member = MemberSeen("[bold]m\x07", "[/]", 1, {ORDERS: (WHOLE,)}, note="\x1b]0;title")
    status = replace(
        STATUS,
        members=(member,),
        partitions=(replace(PARTITION, failed=(odd,), holder=odd),),
        warnings=("\x1b[31mred",),
    )
    text = "\n".join(draw(status, width=300))
    assert "\x1b" not in text
    assert "\r" not in text
    for shown in (r"\x1b[2Jgone", r"[red]h\r", r"[bold]m\x07", r"\x1b[31mred"):
        assert shown in text


def test_an_empty_group_says_so() -> None:
    text = "\n".join(draw(replace(STATUS, members=(), state="Empty", partitions=())))
    assert "no members: nobody is processing" in text


def test_a_large_group_is_drawn_in_part_with_the_partitions_in_trouble() -> None:
    """2,000 partitions made 8,009 lines."""
    calm = replace(PARTITION, failed=(), holder=None, handovers=())
    many = [replace(calm, tp=TopicPartition("orders", n)) for n in range(2_000)]
    many[1_500] = replace(many[1_500], failed=(PARKED,), holder=PARKED)
    many[1_700] = replace(many[1_700], handovers=PARTITION.handovers)
    warnings = tuple(
        f"{it.tp}: someone else committed offset {it.tp.partition}; the next member takes it over"
        for it in many
    )
    large = replace(STATUS, partitions=tuple(many), warnings=warnings)
    lines = draw(large)
    text = "\n".join(lines)
    assert len(lines) < 200
    assert re.search(r"^orders-0 ", text, re.MULTILINE)
    for shown in ("orders-1500 offset 43", "orders-1700: B waits for A", "orders-2: someone else"):
        assert shown in text
    assert "orders-3: someone else" not in text
    assert "1,997 more warnings like the last one" in text
    assert "1,950 more partitions\n" in text
    assert "  to see all:  coop-consumer status flights --all" in text

    whole = "\n".join(draw(large, shows_all=True))
    assert "more partitions" not in whole
    assert "orders-1999: someone else" in whole
    json_of = as_json(large)
    assert (len(json_of["partitions"]), len(json_of["warnings"])) == (2_000, 2_000)


def test_partitions_in_trouble_that_have_no_room_are_counted() -> None:
    many = tuple(replace(PARTITION, tp=TopicPartition("orders", n)) for n in range(60))
    text = "\n".join(draw(replace(STATUS, partitions=many)))
    assert "✗ 60 records parked" in text
    assert "10 more partitions, 10 of them in trouble" in text


# -- JSON ------------------------------------------------------------------------------------------


def names(value: Any) -> set[str]:
    if isinstance(value, Mapping):
        return set(value) | {name for inner in value.values() for name in names(inner)}
    if isinstance(value, list):
        return {name for inner in value for name in names(inner)}
    return set()


def test_policies_in_force_are_told() -> None:
    told = [line for line in draw(STATUS) if line.startswith("policy: ")]
    assert told == [
        "policy: group flights accept.individual.commit=false",
        "policy: topic orders accept.range.fetch=false",
    ]
    assert as_json(STATUS)["policies"][1] == {
        "scope": "topic",
        "name": "orders",
        "policy": "accept.range.fetch",
        "accept": False,
    }


def test_json_carries_the_figures_of_the_picture() -> None:
    told = json.loads(json.dumps(as_json(STATUS)))
    [partition] = told["partitions"]
    assert partition["stable"] == 43
    assert partition["lag"] == 20
    assert partition["remaining"] == {"records": 12, "known": 3, "is_exact": False}
    assert partition["gap_ranges"] == [[45, 47]]
    assert partition["holder"]["key"] == "N14228"
    assert partition["holder"]["parked"] is True
    assert partition["owners"][1]["lo"] == HIGH.lo
    assert partition["handovers"][0]["since_ms"] == NOW_MS - 3_000


def test_every_field_of_the_json_is_documented() -> None:
    documented = set(re.findall(r"`(\w+)`", DOCUMENTATION.read_text(encoding="utf-8")))
    assert names(as_json(STATUS)) <= documented
