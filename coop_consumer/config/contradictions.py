"""Rules for pairs of settings, checked after the bounds of each setting. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from coop_consumer.config.addresses import host_of, is_loopback
from coop_consumer.config.choices import IsolationLevel, Ordering, Split, UpgradeFrom
from coop_consumer.config.patterns import KAFKA_NAME
from coop_consumer.errors import ConfigError

if TYPE_CHECKING:
    from coop_consumer.config.settings import TypedSettings


def contradictions(settings: TypedSettings) -> Iterator[ConfigError]:
    """An error for each pair of settings that cannot both be meant."""
    s = settings
    if s.heartbeat_interval_ms * 3 >= s.session_timeout_ms:
        yield ConfigError(
            "heartbeat.interval.ms",
            f"={s.heartbeat_interval_ms} is not below a third of session.timeout.ms="
            f"{s.session_timeout_ms}: one or two lost heartbeats would evict a live member",
            f"Choose less than {s.session_timeout_ms // 3}, or a longer session",
        )
    if s.heartbeat_interval_ms * 2 > s.max_poll_interval_ms:
        yield ConfigError(
            "max.poll.interval.ms",
            f"={s.max_poll_interval_ms} is below two heartbeats of {s.heartbeat_interval_ms}: a "
            "rebalance would be over before a member hears of it",
            f"Choose {s.heartbeat_interval_ms * 2} or more",
        )
    if s.split is Split.ALWAYS and s.ordering is Ordering.PARTITION:
        yield ConfigError(
            "split",
            "=always contradicts ordering=partition, under which partitions stay whole",
            "Use split=auto, or ordering=key",
        )
    if s.split is Split.ALWAYS and not (s.allow_individual_commit and s.accept_individual_commit):
        yield ConfigError(
            "split",
            "=always contradicts allow.individual.commit or accept.individual.commit=false",
            "Use split=auto, or set both to true",
        )
    if s.attempt_backoff_ms > s.attempt_backoff_max_ms:
        yield ConfigError(
            "attempt.backoff.ms",
            f"={s.attempt_backoff_ms} is above attempt.backoff.max.ms={s.attempt_backoff_max_ms}",
            f"Raise attempt.backoff.max.ms to {s.attempt_backoff_ms} or more",
        )
    if s.max_num_ranges_to_commit > s.max_num_ranges_held:
        yield ConfigError(
            "max.num.ranges.to.commit",
            f"={s.max_num_ranges_to_commit} is above max.num.ranges.held={s.max_num_ranges_held}: "
            "the range would pause before the commit is due",
            f"Choose {s.max_num_ranges_held} or less",
        )
    if s.records_per_key_max > s.max_records_in_lanes:
        yield ConfigError(
            "max.records.per.key",
            f"={s.max_records_per_key} is above max.records.in.lanes={s.max_records_in_lanes}",
            f"Choose {s.max_records_in_lanes} or less",
        )
    if (s.capacity or 0) > s.max_records_in_lanes:
        yield ConfigError(
            "max.records.in.lanes",
            f"={s.max_records_in_lanes} is below capacity={s.capacity}: workers would idle",
            f"Choose {s.capacity} or more",
        )
    yield from _of_the_page(s)
    if s.exactly_once:
        yield from _with_transactions(s)


def _of_the_page(s: TypedSettings) -> Iterator[ConfigError]:
    if s.ops_address is None:
        given = {
            "ops.token.file": s.ops_token_file,
            "ops.allowed.hosts": s.ops_allowed_hosts,
            "ops.allow.actions": s.ops_allow_actions,
        }
        for name in (it for it, value in given.items() if value):
            yield ConfigError(
                name,
                "is set and ops.address is not: nobody is served",
                "Set ops.address (--ops), too",
            )
    elif s.ops_allow_actions and not (s.ops_token_file or is_loopback(host_of(s.ops_address))):
        yield ConfigError(
            "ops.allow.actions",
            f"=true contradicts ops.address={s.ops_address} without ops.token.file: whoever "
            "reaches that address could skip records",
            "Set ops.token.file, or ops.address to 127.0.0.1 and a port",
        )


def _with_transactions(s: TypedSettings) -> Iterator[ConfigError]:
    if s.isolation_level is IsolationLevel.READ_UNCOMMITTED:
        yield ConfigError(
            "isolation.level",
            "=read_uncommitted contradicts processing.guarantee=exactly_once: a record that is "
            "aborted later would have results",
            "Set isolation.level to read_committed",
        )
    if s.upgrade_from is not UpgradeFrom.NONE:
        yield ConfigError(
            "upgrade.from",
            f"={s.upgrade_from} contradicts processing.guarantee=exactly_once: a plain member "
            "commits offsets outside of any transaction",
            "Change the group to this library with at_least_once first, then its guarantee",
        )
    if not re.fullmatch(KAFKA_NAME.regex, s.progress_log):
        yield ConfigError(
            "group.id",
            f"={s.group_id} makes {s.progress_log}, the topic for this group's progress with "
            f"processing.guarantee=exactly_once, and a topic's name has {KAFKA_NAME.words}",
            "Choose another group.id, or a shorter progress.topic",
        )
