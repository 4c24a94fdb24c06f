"""What plans by load promise for any loads, true or not."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from assignors import (
    KEY_HASH_MAX,
    WHOLE,
    ClaimLoad,
    HeavyHash,
    KeyRange,
    KeyRangeRangeAssignor,
    KeyRangeRoundRobinAssignor,
    KeyRangeStickyAssignor,
    Member,
    RangesLoad,
    TopicPartition,
    check_cover,
    union,
)
from assignors.assignment import Roster
from assignors.claims import LINE, Piece
from assignors.lines import Claimant, divide
from assignors.load import BINS, decode_load, eighths, encode_load, level_of, value_of
from assignors.merged_load import LineLoad, merged_load
from assignors.scale import in_units, scale_of
from tests.support.weighing import Known, Weighing

SPLITTING = [
    KeyRangeStickyAssignor(),
    KeyRangeStickyAssignor(split="always"),
    KeyRangeRoundRobinAssignor(),
    KeyRangeRangeAssignor(),
]
each_assignor = pytest.mark.parametrize(
    "assignor", SPLITTING, ids=lambda it: f"{it.name}-{getattr(it, 'split', '')}"
)
TOPICS = ("a", "b")

hashes = st.integers(0, KEY_HASH_MAX) | st.sampled_from([0, 1, KEY_HASH_MAX - 1, KEY_HASH_MAX])
ranges = st.lists(st.tuples(hashes, hashes).map(sorted), max_size=3).map(
    lambda pairs: union(KeyRange(lo, hi) for lo, hi in pairs)
)


def some_load(seed):
    """Weights of any size; now and then a hash that the claim may not hold."""
    rng = random.Random(seed)

    def weight():
        return rng.choice([0, 1, rng.randrange(10**12), 2**63, 2**300])

    heavy = [HeavyHash(rng.randrange(KEY_HASH_MAX), weight()) for _ in range(rng.randrange(5))]
    return ClaimLoad(tuple(weight() for _ in range(BINS)), tuple(heavy), weight())


loads = st.integers(0, 10**6).map(some_load)
said = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from((*TOPICS, "other")), st.integers(0, 4)),
    st.lists(st.builds(RangesLoad, ranges | st.just((WHOLE,)), loads), max_size=2).map(tuple),
    max_size=2,
)
owned = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 4)),
    ranges | st.just((WHOLE,)),
    max_size=3,
)
member = st.builds(
    Member,
    id=st.integers(0, 99).map("M{:02}".format),
    topics=st.lists(st.sampled_from(TOPICS), unique=True).map(tuple),
    capacity=st.integers(1, 20) | st.just(1_000),
    host=st.sampled_from(["", "h1", "h2"]),
    allow_sharing=st.integers(0, 4).map(bool),
    owned=owned,
    loads=said,
)
groups = st.lists(member, max_size=7, unique_by=lambda m: m.id)
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 4))


@st.composite
def keys_of_a_group(draw):
    """Members that share partitions, and keys of any weight on them."""
    count = draw(st.integers(6, 16))
    partitions = draw(st.integers(1, min(3, count - 1)))
    rng = random.Random(draw(st.integers(0, 10**6)))
    skew = draw(st.sampled_from([0.0, 0.5, 1.0, 1.5]))
    keys = {TopicPartition("t", number): {} for number in range(partitions)}
    for rank in range(1, draw(st.integers(2, 40)) * count):
        of_partition = keys[TopicPartition("t", rng.randrange(partitions))]
        of_partition[rng.randrange(KEY_HASH_MAX)] = int(10**11 / rank**skew * rng.uniform(0.5, 1))
    members = [Member(f"M{number:02}", ("t",)) for number in range(count)]
    return Weighing(keys), members, partitions


def planned(weighing, members, partitions, times):
    """Plans one after the other, each by what members have measured since the one before."""
    sticky = KeyRangeStickyAssignor()
    plans = [sticky.assign(partitions={"t": partitions}, members=members)]
    for _ in range(times):
        now = weighing.owning(members, plans[-1])
        plans.append(sticky.assign(partitions={"t": partitions}, members=now))
    return plans


def lumps(loads, capacities):
    """What the busiest has for its capacity, if loads are dealt one by one, the largest first.

    It is no less than one of them: a hash runs on one worker.
    """
    sums = [0] * len(capacities)
    for load in sorted(loads, reverse=True):
        i = min(range(len(sums)), key=lambda i: (sums[i] + load) / capacities[i])
        sums[i] += load
    return max(*(it / capacity for it, capacity in zip(sums, capacities, strict=True)), *loads, 0)


def cut_at_random(rng, members, partitions):
    """Who holds what, in up to four pieces a member and partition, and with holes."""
    owned = {it.id: {} for it in members}
    for number in range(partitions):
        cuts = {rng.randrange(1, LINE) for _ in range(rng.randint(1, 4 * len(members)))}
        for lo, after in pairwise(sorted({0, *cuts, LINE + 1})):
            if rng.random() < 0.95:
                own = owned[rng.choice(members).id]
                own.setdefault(TopicPartition("t", number), []).append(KeyRange(lo, after - 1))
    return {id_: {tp: union(own[tp]) for tp in own} for id_, own in owned.items()}


def reporting(rng, members, plan):
    """The members with what they hold, and any load of that. Often heavy hashes are alike."""
    heavy_share, heavy_max = (
        rng.choice([0.03, 0.1, 0.15, 0.19, 0.21, 0.3, 0.6, 1]),
        rng.choice([1, 4]),
    )
    steepness = rng.choice([0, 1, 3])
    found = []
    for member in members:
        own = plan.get(member.id, {})
        said = {}
        for tp, of_tp in own.items():
            named = {}
            for _ in range(rng.randint(0, heavy_max)):
                r = rng.choice(of_tp)
                times = rng.choice([1, rng.uniform(0.8, 1.2), rng.uniform(0.1, 2)])
                named[rng.randint(r.lo, r.hi)] = int(10**12 * heavy_share * times)
            share = 10**12 * member.capacity * rng.uniform(0.2, 1.8) / len(own)
            weights = [10 ** (-steepness * rng.random()) for _ in range(BINS)]
            rest = max(0, share - sum(named.values())) / sum(weights)
            bins = tuple(int(rest * it) for it in weights)
            load = ClaimLoad(bins, tuple(HeavyHash(*it) for it in named.items()), 100)
            said[tp] = (RangesLoad(of_tp, load),)
        found.append(replace(member, owned=own, loads=said))
    return found


def reports_of(seed, count, partitions, most, plans):
    """Members of any capacity, and any loads of what they hold; partitions; those loads, known.

    They hold what chance gave them, or what came of so many plans by other such loads.
    """
    rng = random.Random(seed)
    members = [
        Member(f"M{number:03}", ("t",), rng.choice([1, rng.randint(1, most)]))
        for number in range(count)
    ]
    plan = cut_at_random(rng, members, partitions)
    for _ in range(plans):
        now = reporting(rng, members, plan)
        plan = KeyRangeStickyAssignor().assign(partitions={"t": partitions}, members=now)
    members = reporting(rng, members, plan)
    return members, {"t": partitions}


@st.composite
def reports_of_a_group(draw):
    count = draw(st.integers(2, 14))
    members, partitions = reports_of(
        draw(st.integers(0, 10**6)),
        count,
        draw(st.integers(1, min(4, count - 1))),
        draw(st.sampled_from([1, 1, 1, 2, 4, 16, 1_000])),
        draw(st.integers(0, 3)),
    )
    assume(merged_load(Roster.of(partitions, members, {}, True)) is not None)
    return members, partitions


def owner_of(plan, place):
    """Who has this hash of a partition in a plan, or None."""
    tp, key_hash = place
    return next(
        (id_ for id_, own in plan.items() if any(key_hash in r for r in own.get(tp, ()))), None
    )


def replanned(members, partitions):
    """What members hold, and the first plan by what they report."""
    before = {it.id: it.owned for it in members}
    return before, KeyRangeStickyAssignor().assign(partitions=partitions, members=members)


# ---- any loads -----------------------------------------------------------------------------------


@each_assignor
@settings(max_examples=50)
@given(members=groups, partitions=counts)
def test_every_plan_covers_whatever_is_said_of_loads(assignor, members, partitions):
    plan = assignor.assign(partitions=partitions, members=members)
    check_cover(plan, partitions, members)
    allowed = {it.id: it.allow_sharing for it in members}
    for id_, given_to in plan.items():
        assert allowed[id_] or all(it == (WHOLE,) for it in given_to.values())


@each_assignor
@settings(max_examples=50)
@given(members=groups, partitions=counts, data=st.data())
def test_the_order_of_the_input_does_not_matter(assignor, members, partitions, data):
    shuffled = data.draw(st.permutations(members))
    turned = [replace(it, loads=dict(reversed(it.loads.items()))) for it in shuffled]
    assert assignor.assign(partitions=partitions, members=turned) == assignor.assign(
        partitions=partitions, members=members
    )


@each_assignor
@settings(max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6)), min_size=2, max_size=9))
def test_topics_without_a_member_in_common_have_nothing_to_do_with_each_other(assignor, drawn):
    """Neither what their members hold nor what they report."""
    partitions = dict.fromkeys(TOPICS, 1)
    members = [Member(f"M{n}", ("b" if is_b else "a",)) for n, (is_b, _) in enumerate(drawn)]
    even = assignor.assign(partitions=partitions, members=members)
    said = [
        replace(
            it,
            owned=even[it.id],
            loads={
                tp: (RangesLoad(own, ClaimLoad((load,) * BINS, (), 100)),)
                for tp, own in even[it.id].items()
            },
        )
        for it, (_, load) in zip(members, drawn, strict=True)
    ]
    plan = assignor.assign(partitions=partitions, members=said)
    for topic in TOPICS:
        alone = [it for it in said if it.topics == (topic,)]
        by_itself = assignor.assign(partitions=partitions, members=alone)
        assert by_itself == {it.id: plan[it.id] for it in alone}


@each_assignor
@settings(max_examples=50)
@given(members=groups, partitions=counts)
def test_loads_of_nothing_are_no_loads(assignor, members, partitions):
    nothing = [
        replace(
            it,
            loads={
                tp: tuple(RangesLoad(one.ranges, ClaimLoad((0,) * BINS, (), 7)) for one in of_tp)
                for tp, of_tp in it.loads.items()
            },
        )
        for it in members
    ]
    bare = [replace(it, loads={}) for it in members]
    assert assignor.assign(partitions=partitions, members=nothing) == assignor.assign(
        partitions=partitions, members=bare
    )


@settings(max_examples=200)
@given(st.sampled_from([2, 3, 4, 5, 8, 12, 40]), st.integers(0, 10**6), st.integers(0, 39))
def test_whatever_a_liar_says_the_others_are_due_ten_percent_more_or_less_at_most(count, seed, at):
    """What they are due is counted in load. Where in its ranges that lies only a holder knows."""
    members = [Member(f"M{number:02}", ("t",)) for number in range(count)]
    plan = KeyRangeStickyAssignor().assign(partitions={"t": 1}, members=members)
    even, t0 = ClaimLoad((10**9,) * BINS, (), 100), TopicPartition("t", 0)
    said = [
        replace(it, owned=plan[it.id], loads={t0: (RangesLoad(plan[it.id][t0], even),)})
        for it in members
    ]
    liar = said[at % count]
    [own] = liar.owned[t0]
    lie = some_load(seed)
    inside = tuple(it._replace(key_hash=own.lo + it.key_hash % own.size) for it in lie.heavy)
    said[at % count] = replace(liar, loads={t0: (RangesLoad((own,), lie._replace(heavy=inside)),)})
    merged = merged_load(Roster.of({"t": 1}, said, {}, True))
    assert merged is not None
    line = merged.lines[t0]
    others = sum(load for begin, _, load in line.parts if begin not in own)
    others += sum(load for key_hash, load in line.heavy.items() if key_hash not in own)
    honest, due = others / (count - 1), merged.total / count
    assert 0.9 <= due / honest <= 1.1000001


# ---- loads that are known: what is reported is the truth ----------------------------------------


@settings(max_examples=300)
@given(reports_of_a_group())
@example(reports_of(975_666, 11, 4, most=1, plans=0))  # borders 5 % of a due inside of hashes
@example(reports_of(210_315, 11, 4, most=1, plans=0))  # after three rounds some are cut
@example(reports_of(379_465, 117, 2, most=1, plans=0))  # each round cuts some: the last is not best
def test_of_what_is_known_the_first_plan_gives_nobody_more_than_1_1_of_the_bound(group):
    """The bound is a due, or what heavy hashes make of it.

    What evens out less than 5 % is not done. A member may be off by 2.7 %, and a border by 2 %.
    Found in 12,000 groups: 1.096 times the bound.
    """
    members, partitions = group
    known = Known(partitions, members)
    _, plan = replanned(members, partitions)
    carried = known.carried(plan)
    capacities = [it.capacity for it in members]
    bound = max(known.total / sum(capacities), lumps(known.heavy.values(), capacities))
    assert max(carried[it.id] / it.capacity for it in members) <= 1.1 * bound


def known_of(group):
    """The load as a plan knows it, the plans before and after, and what each member is due."""
    members, partitions = group
    known = Known(partitions, members)
    before, plan = replanned(members, partitions)
    assume(plan != before)
    due = known.total / sum(it.capacity for it in members)
    return known, before, plan, {it.id: due * it.capacity for it in members}


@settings(max_examples=300)
@given(reports_of_a_group())
def test_of_what_is_known_a_plan_moves_heavy_hashes_and_what_balance_needs_then(group):
    """A heavy hash that moves makes room. So the rest is judged as if it had moved already."""
    known, before, plan, dues = known_of(group)
    had = {None: known.total - sum(known.carried(before).values())} | known.carried(before)
    heavy = 0
    for place, load in known.heavy.items():
        giver, taker = owner_of(before, place), owner_of(plan, place)
        if giver != taker:
            heavy += load
            had[giver] -= load
            had[taker] += load
    needed = had[None] + sum(max(0, had[id_] - due) for id_, due in dues.items())
    # A border that falls on a hash, and what is not worth a range. Ranges that have multiplied are
    # made fewer: 5 % for that, and as much is given back.
    ranges = sum(len(of_tp) for own in before.values() for of_tp in own.values())
    aside = 0.11 if ranges > 4 * len(dues) else 0.01
    assert known.moved(before, plan) <= heavy + needed + aside * known.total


@settings(max_examples=300)
@given(reports_of_a_group())
def test_a_heavy_hash_stays_with_its_holder_if_that_fits_else_it_goes_where_most_room_is(group):
    """The largest comes first. Heavy is what is more than a fifth of the least due."""
    known, before, plan, dues = known_of(group)
    room, has_one = dict(dues), set()
    rounding = known.total / 10**9
    for place, load in sorted(known.heavy.items(), key=lambda it: (-it[1], it[0])):
        if load <= min(dues.values()) / 5 + rounding:
            break
        holder, owner = owner_of(before, place), owner_of(plan, place)
        if holder is not None and (
            holder not in has_one or room[holder] >= load - dues[holder] / 100
        ):
            assert owner == holder
        else:
            assert room[owner] >= max(room.values()) - rounding
        room[owner] -= load
        has_one.add(owner)
    assume(has_one)


@settings(max_examples=300)
@given(reports_of_a_group())
def test_nobody_has_two_hashes_of_half_its_due_while_another_has_none_as_heavy(group):
    known, _, plan, dues = known_of(group)
    loads = {id_: [] for id_ in dues}
    for place, load in known.heavy.items():
        loads[owner_of(plan, place)].append(load)
    for id_, own in loads.items():
        if sum(load > 0.505 * dues[id_] for load in own) > 1:
            second = sorted(own)[-2]
            # Who is due less may have less room, even with none.
            assert all(max(loads[it], default=0) >= second for it in dues if dues[it] >= dues[id_])


# ---- loads that nobody has measured: which key of an eighth it is --------------------------------


@settings(max_examples=150)
@given(keys_of_a_group())
def test_where_nobody_has_measured_each_key_ten_plans_are_within_a_tenth_of_the_bound_and_a_key(
    group,
):
    """Reports are believed up to a limit, so a small group with a hot key needs up to ten plans."""
    weighing, members, partitions = group
    due = weighing.total / len(members)
    plan = planned(weighing, members, partitions, 10)[-1]
    # Reports name few keys, and nobody knows on which side of a border the others lie. Keys above a
    # fifth of a due are dealt by themselves; a border off by half of a lighter one is off by a
    # tenth of a due. Found in 3,000 groups: 0.95 of what is set aside here, and 1.19 times
    # the bound in all.
    aside = min(weighing.heaviest, due / 10)
    bound = 1.1 * max(due, lumps(weighing.loads(), [1] * len(members))) + aside
    assert max(weighing.carried(plan).values()) <= bound


@settings(max_examples=40)
@given(keys_of_a_group())
def test_where_nobody_has_measured_each_key_a_plan_moves_heavy_ones_and_what_balance_needs(group):
    weighing, members, partitions = group
    due = weighing.total / len(members)
    can_fail = False
    for before, after in pairwise(planned(weighing, members, partitions, 2)):
        needed = sum(max(0, it - due) for it in weighing.carried(before).values())
        heavy = sum(
            weighing.load_of(*place, place[1] + 1)
            for place in weighing.places()
            if owner_of(before, place) != owner_of(after, place)
            and weighing.load_of(*place, place[1] + 1) > due / 25
        )
        # Which of the lighter ones goes with a border is chance. Found in 3,000 groups: 1.8 %.
        limit = needed + heavy + 0.03 * weighing.total
        can_fail |= limit < weighing.total
        assert weighing.moved(before, after) <= limit
    assume(can_fail)  # where the limit is more than all there is, no plan could be wrong


# ---- scales --------------------------------------------------------------------------------------


@st.composite
def lines(draw):
    cuts = sorted(draw(st.sets(st.integers(1, LINE - 1), max_size=9)) | {0, LINE})
    parts = [(begin, end, draw(st.integers(0, 10**15))) for begin, end in pairwise(cuts)]
    heavy = draw(st.dictionaries(st.integers(0, LINE - 1), st.integers(0, 10**15), max_size=5))
    line = LineLoad(parts, heavy)
    return in_units(line, (max(1, line.total), 1))


@given(lines(), st.lists(st.integers(0, LINE), max_size=20))
def test_a_scale_gives_back_every_border(line, borders):
    scale = scale_of(line)
    for border in (*borders, 0, LINE, *line.heavy, *(begin for begin, _, _ in line.parts)):
        assert scale.hash_at(scale.load_below(border)) == border
    assert scale.length == line.total == scale.load_below(LINE)


@given(lines(), st.integers(0, 1_000))
def test_a_heavy_hash_is_one_step_that_no_cut_divides(line, per_mille):
    """Wherever in the step a cut falls, it comes to lie on the nearer side of the hash."""
    scale = scale_of(line)
    for key_hash, load in line.heavy.items():
        below, after = scale.load_below(key_hash), scale.load_below(key_hash + 1)
        assert after - below >= load
        without = scale_of(line, [key_hash])
        others = without.load_below(key_hash + 1) - without.load_below(key_hash)
        assert abs(after - below - load - others) <= 1, "its whole load, and no other hash's"
        cut = below + (after - below) * per_mille // 1_000
        nearer = key_hash + (cut - below > after - cut)
        assert scale.hash_at(cut) == nearer


@given(lines(), st.integers(1, 30))
def test_parts_by_load_cover_and_none_is_empty(line, k):
    parts = scale_of(line).parts(k)
    assert len(parts) == k
    assert union(parts) == (WHOLE,)
    assert sum(part.size for part in parts) == WHOLE.size


# ---- lines of unequal length ---------------------------------------------------------------------


@given(
    st.lists(st.integers(10**6, 10**9), min_size=1, max_size=5),
    st.lists(st.integers(1, 9), min_size=1, max_size=8),
)
def test_lines_of_any_length_are_divided_by_their_dues(lengths, capacities):
    total = sum(lengths)
    ends = [total * sum(capacities[:i]) // sum(capacities) for i in range(len(capacities) + 1)]
    claimants = {
        i: Claimant(end - begin, end - begin, "") for i, (begin, end) in enumerate(pairwise(ends))
    }
    divided = divide([[] for _ in lengths], claimants, lengths)
    held = dict.fromkeys(claimants, 0)
    for pieces, length in zip(divided, lengths, strict=True):
        assert [pieces[0].begin, pieces[-1].end] == [0, length]
        for one, other in pairwise(pieces):
            assert one.end == other.begin
        for begin, end, i in pieces:
            held[i] += end - begin
    for i, claimant in claimants.items():
        assert abs(held[i] - claimant.due) * 100 <= claimant.due + 100
    again = divide(divided, claimants, lengths)
    assert again == [[Piece(*it) for it in pieces] for pieces in divided]


# ---- bytes ---------------------------------------------------------------------------------------


@given(loads, ranges)
def test_a_load_that_was_read_is_read_again(load, of_ranges):
    read = decode_load(encode_load(load), of_ranges)
    named = {it.key_hash for it in load.heavy}
    is_inside = all(any(it in r for r in of_ranges) for it in named)
    assert (read is not None) == (is_inside and len(named) == len(load.heavy))
    if read is not None:
        assert decode_load(encode_load(read), of_ranges) == read


@given(st.binary(max_size=60), ranges)
def test_no_bytes_are_an_error(data, of_ranges):
    read = decode_load(data, of_ranges)
    assert read is None or len(read.bins) == BINS


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_what_is_more_is_never_written_as_less(one, other):
    low, high = sorted((one, other))
    assert level_of(low) <= level_of(high)
    assert value_of(level_of(low)) <= value_of(level_of(high))


@given(ranges)
def test_eighths_lie_end_to_end(of_ranges):
    parts = list(eighths(of_ranges))
    assert union(KeyRange(lo, after - 1) for lo, after, _ in parts) == of_ranges
    size = sum(r.size for r in of_ranges)
    at = 0
    for lo, after, bin_ in parts:
        assert size * bin_ // BINS <= at < size * (bin_ + 1) // BINS
        at += after - lo
    assert at == size
