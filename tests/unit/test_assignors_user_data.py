"""The wire format: small, skips what it does not know, says what is wrong. And the wait lists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignors import (
    WHOLE,
    WIRE_VERSION,
    AssignmentData,
    Claim,
    ClaimLoad,
    KeyRange,
    KeyRangeStickyAssignor,
    Member,
    Subscription,
    TopicPartition,
    UnknownVersionError,
    UserDataError,
    Wait,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    wait_lists,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LOW, HIGH = WHOLE.parts(2)
SUBSCRIPTION = Subscription(
    name="worker-7",
    incarnation=2**64 - 1,
    host="h1",
    capacity=16,
    allow_sharing=True,
    contract="c",
    nonce=5,
    stop="",
    claims=(Claim(1, T0, (WHOLE,), draining=False), Claim(2, T1, (LOW,), draining=True)),
)
ASSIGNMENT = AssignmentData(
    ranges={T0: (WHOLE,), T1: (LOW,)},
    waits=(Wait("worker-8", 12, 3, T0, (KeyRange(5, 9), HIGH)),),
    lead="worker-7",
    members=2,
    live=("worker-7", "worker-8"),
    split=(T1,),
    planned={"t": 2, "u": 1},
    epochs={T1: 4},
    assigned_at_ms=1_700_000_000_000,
)


def with_body(data, change):
    """A message whose body is changed and whose length is right again (bodies under 128 bytes)."""
    body = change(data[3:])
    assert len(body) < 128
    return data[:2] + bytes([len(body)]) + body


def test_both_messages_survive_the_wire():
    assert decode_subscription(encode_subscription(SUBSCRIPTION)) == SUBSCRIPTION
    assert decode_assignment(encode_assignment(ASSIGNMENT)) == ASSIGNMENT


def test_a_range_takes_at_most_thirty_bytes_and_a_whole_partition_seven():
    def size(claims):
        return len(encode_subscription(replace(SUBSCRIPTION, claims=tuple(claims))))

    parts = WHOLE.parts(200)
    split = [Claim(n, TopicPartition("t", n), (parts[n],), draining=False) for n in range(200)]
    whole = [replace(claim, ranges=(WHOLE,)) for claim in split]
    assert (size(split) - size(split[:1])) / 199 <= 30
    assert (size(whole) - size(whole[:1])) / 199 <= 7


def test_a_wait_takes_at_most_thirty_bytes():
    parts = WHOLE.parts(200)
    waits = tuple(Wait("w", 2**63, n, T0, (parts[n],)) for n in range(200))
    both = [len(encode_assignment(AssignmentData(waits=some))) for some in (waits[:1], waits)]
    assert (both[1] - both[0]) / 199 <= 30


def test_fields_that_a_later_revision_appends_are_skipped():
    longer = with_body(encode_subscription(SUBSCRIPTION), lambda body: body + b"\x07news")
    assert decode_subscription(longer) == SUBSCRIPTION


def test_a_newer_version_is_told_apart_from_garbage():
    data = bytearray(encode_assignment(ASSIGNMENT))
    data[1] = WIRE_VERSION + 1
    with pytest.raises(UnknownVersionError, match=rf"version {WIRE_VERSION + 1} is newer"):
        decode_assignment(bytes(data))


def test_every_cut_of_a_message_is_refused():
    for data, decode in (
        (encode_subscription(SUBSCRIPTION), decode_subscription),
        (encode_assignment(ASSIGNMENT), decode_assignment),
    ):
        for length in range(len(data)):
            with pytest.raises(UserDataError, match=r"cannot be read at byte \d+ of \d+"):
                decode(data[:length])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ends where 1 more byte is due"),
        (encode_assignment(ASSIGNMENT), "another assignor"),
        (b"S\x00", "version 0 never existed"),
        (encode_subscription(SUBSCRIPTION) + b"x", "a body of .* is announced"),
        (b"S\x01" + b"\xff" * 10, "an integer does not end"),
        (
            with_body(encode_subscription(SUBSCRIPTION), lambda b: b.replace(b"wor", b"w\xffr")),
            "not UTF-8",
        ),
        (
            with_body(encode_subscription(SUBSCRIPTION), lambda b: b"\x02\x01" + b[2:]),
            "versions 2 to 1 are none",
        ),
        (
            encode_subscription(replace(SUBSCRIPTION, capacity=0)),
            "member worker-7: capacity 0 is below 1",
        ),
    ],
    ids=["empty", "kind", "version", "trailing", "integer", "text", "versions", "capacity"],
)
def test_what_is_wrong_with_a_subscription_is_said(data, reason):
    with pytest.raises(UserDataError, match=reason):
        decode_subscription(data)


def test_a_range_beyond_the_hash_space_is_refused():
    at_the_end = replace(SUBSCRIPTION, claims=(Claim(1, T0, (KeyRange(2**62, 2**62 + 5),), False),))
    # Gap and size are the last two fields: 9 bytes and 1; the size becomes 2^63 - 1.
    data = with_body(encode_subscription(at_the_end), lambda b: b[:-1] + b"\xff" * 8 + b"\x7f")
    with pytest.raises(UserDataError, match="beyond the hash space"):
        decode_subscription(data)


def test_a_topic_that_is_not_in_the_table_is_refused():
    one_claim = replace(SUBSCRIPTION, claims=(Claim(1, T0, (WHOLE,), False),))
    # The last three bytes are topic position, partition and the mark of a whole partition.
    data = with_body(encode_subscription(one_claim), lambda body: body[:-3] + b"\x01\x00\x00")
    with pytest.raises(UserDataError, match="entry 1 of a table of 1"):
        decode_subscription(data)


def test_a_count_beyond_the_bytes_is_refused_before_anything_is_read():
    no_claims = replace(SUBSCRIPTION, claims=())
    data = with_body(encode_subscription(no_claims), lambda body: body[:-1] + b"\xff\xff\xff\x7f")
    with pytest.raises(UserDataError, match="is more than the possible"):
        decode_subscription(data)


@pytest.mark.parametrize("wrong", [-1, 2**64])
def test_numbers_that_are_not_unsigned_64_bit_are_not_written(wrong):
    for field in ("incarnation", "nonce"):
        with pytest.raises(ValueError, match="not an unsigned 64-bit integer"):
            encode_subscription(replace(SUBSCRIPTION, **{field: wrong}))


def test_ranges_in_the_wrong_order_are_not_written():
    with pytest.raises(ValueError, match="must ascend, disjoint"):
        encode_assignment(AssignmentData(ranges={T0: (HIGH, LOW)}))


def test_a_member_waits_for_others_active_and_draining_claims_over_what_it_got():
    assignment = {"A": {T0: (LOW,)}, "B": {T0: (HIGH,)}, "C": {}}
    claims = {
        "A": [Claim(1, T0, (LOW,), draining=False)],
        "B": [Claim(4, T0, (KeyRange(5, 9),), draining=True)],
        "C": [Claim(7, T0, (WHOLE,), draining=False), Claim(8, T1, (WHOLE,), draining=False)],
    }
    assert wait_lists(assignment, claims, {"A": 1, "B": 2, "C": 3}) == {
        "A": (Wait("B", 2, 4, T0, (KeyRange(5, 9),)), Wait("C", 3, 7, T0, (LOW,))),
        "B": (Wait("C", 3, 7, T0, (HIGH,)),),
        "C": (),
    }


def test_a_claim_over_several_ranges_of_a_member_is_one_wait():
    assignment = {"A": {T0: (KeyRange(0, 9), KeyRange(20, 29))}}
    claims = {"B": [Claim(1, T0, (KeyRange(9, 20), KeyRange(25, 26)), draining=False)]}
    ranges = (KeyRange(9, 9), KeyRange(20, 20), KeyRange(25, 26))
    assert wait_lists(assignment, claims, {"B": 6}) == {"A": (Wait("B", 6, 1, T0, ranges),)}


def test_a_thousand_members_that_keep_what_they_have_wait_for_nobody():
    members = [Member(f"M{number:04}", ("t",)) for number in range(1000)]
    plan = KeyRangeStickyAssignor().assign(partitions={"t": 3}, members=members)
    claims = {
        id_: [
            Claim(n, partition, ranges, False) for n, (partition, ranges) in enumerate(of.items())
        ]
        for id_, of in plan.items()
    }
    assert wait_lists(plan, claims, dict.fromkeys(plan, 1)) == dict.fromkeys(plan, ())


def test_patterns_are_told_beside_anything_and_cost_nothing_without_them():
    plain = encode_subscription(SUBSCRIPTION)
    told = replace(SUBSCRIPTION, patterns=("^orders-.*", "^b"))
    data = encode_subscription(told)
    assert decode_subscription(data) == told
    assert decode_subscription(plain).patterns == ()
    load = ClaimLoad((1,) * 8, (), 1)
    heavy = replace(told, claims=tuple(replace(it, load=load) for it in told.claims))
    read = decode_subscription(encode_subscription(heavy))
    assert (read.patterns, read.loads_unreadable) == (told.patterns, 0)
    assert all(claim.load is not None for claim in read.claims)


def test_patterns_that_cannot_be_read_leave_the_rest_as_it_is():
    data = encode_subscription(replace(SUBSCRIPTION, patterns=("^b",)))
    broken = with_body(data, lambda body: body[:-2] + b"\xff\xff")
    assert decode_subscription(broken) == SUBSCRIPTION
