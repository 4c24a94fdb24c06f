"""The wire format, for any values and any bytes."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import example, given
from hypothesis import strategies as st

from assignors import (
    KEY_HASH_MAX,
    WIRE_VERSION,
    AssignmentData,
    Claim,
    KeyRange,
    Subscription,
    TopicPartition,
    UserDataError,
    Wait,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    union,
    wait_lists,
)

hashes = st.integers(0, KEY_HASH_MAX)
ranges = st.lists(st.tuples(hashes, hashes).map(sorted), max_size=4).map(
    lambda pairs: union(KeyRange(lo, hi) for lo, hi in pairs)
)
uint64 = st.integers(0, 2**64 - 1)
text = st.text(max_size=8)
partition = st.builds(TopicPartition, text, st.integers(0, 2**31 - 1))
subscription = st.builds(
    Subscription,
    name=text,
    incarnation=uint64,
    host=text,
    capacity=st.integers(1, 2**64 - 1),
    allow_sharing=st.booleans(),
    contract=text,
    nonce=uint64,
    stop=text,
    leaving=st.booleans(),
    claims=st.lists(st.builds(Claim, uint64, partition, ranges, st.booleans(), uint64)).map(tuple),
    supported=st.tuples(st.integers(1, WIRE_VERSION), st.integers(WIRE_VERSION, 2**64 - 1)),
)
assignment = st.builds(
    AssignmentData,
    ranges=st.dictionaries(partition, ranges),
    waits=st.lists(st.builds(Wait, text, uint64, uint64, partition, ranges)).map(tuple),
    lead=text,
    members=uint64,
    live=st.lists(text).map(tuple),
    split=st.lists(partition).map(tuple),
    epochs=st.dictionaries(partition, uint64),
    refused=text,
    stop=text,
    assigned_at_ms=uint64,
)


@given(subscription)
def test_subscriptions_survive_the_wire(value):
    assert decode_subscription(encode_subscription(value)) == value


@given(assignment)
def test_assignments_survive_the_wire(value):
    assert decode_assignment(encode_assignment(value)) == value


def read_or_refuse(data):
    """Decode as both messages; any error but the promised one fails the test."""
    for decode in (decode_subscription, decode_assignment):
        with suppress(UserDataError):
            decode(data)


@given(st.binary())
@example(b"")
@example(b"S\x01\x01\x80")
def test_arbitrary_bytes_raise_nothing_but_the_promised_error(data):
    read_or_refuse(data)


@given(st.sampled_from(b"SA"), st.binary(max_size=127))
def test_arbitrary_bodies_raise_nothing_but_the_promised_error(kind, body):
    read_or_refuse(bytes([kind, 1, len(body)]) + body)


@given(subscription.map(encode_subscription) | assignment.map(encode_assignment), st.data())
def test_a_message_with_one_wrong_byte_raises_nothing_but_the_promised_error(message, data):
    at = data.draw(st.integers(0, len(message) - 1))
    byte = data.draw(st.integers(0, 255))
    read_or_refuse(message[:at] + bytes([byte]) + message[at + 1 :])


SPACE = 24
T = TopicPartition("t", 0)
places = st.lists(st.integers(0, 3), min_size=SPACE, max_size=SPACE)


def held_by(places):
    """A plan from a list that names the owner of each hash; owner 0 is nobody."""
    owners = {f"M{owner}": [] for owner in (1, 2, 3)}
    for hash_, owner in enumerate(places):
        if owner:
            owners[f"M{owner}"].append(KeyRange(hash_, hash_))
    return {member: union(ranges) for member, ranges in owners.items()}


@given(places, places, places)
def test_wait_lists_name_exactly_the_hashes_that_others_still_claim(given_to, active, draining):
    assignment = {member: {T: ranges} for member, ranges in held_by(given_to).items()}
    claims = {
        member: [Claim(1, T, ranges, draining=False), Claim(2, T, held_by(draining)[member], True)]
        for member, ranges in held_by(active).items()
    }
    waits = wait_lists(assignment, claims, {"M1": 11, "M2": 12, "M3": 13})
    for i, member in enumerate(("M1", "M2", "M3"), start=1):
        expected = {
            (f"M{holder}", number, hash_)
            for number, holders in ((1, active), (2, draining))
            for hash_, holder in enumerate(holders)
            if given_to[hash_] == i and holder not in (0, i)
        }
        found = [
            (wait.member, wait.number, hash_)
            for wait in waits[member]
            for key_range in wait.ranges
            for hash_ in range(key_range.lo, key_range.hi + 1)
        ]
        assert sorted(found) == sorted(expected)
        assert all(wait.incarnation == 10 + int(wait.member[1:]) for wait in waits[member])
