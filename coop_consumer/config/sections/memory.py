"""Settings that bound memory. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from coop_consumer.config.setting import Section, setting

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True, repr=False)
class MemorySettings:
    """Settings that bound memory."""

    SECTION = Section.MEMORY

    max_records_in_lanes: int = setting(
        20_000,
        "Records waiting or running in one process; at this bound fetching stops.",
        "with fewer than one a worker, workers idle",
        low=1,
    )
    max_records_per_key: int | None = setting(
        None,
        "Records of a single key among them, so that one busy key cannot fill the lanes.",
        "a key that may not wait cannot be processed",
        low=1,
        derived="a tenth of max.records.in.lanes",
    )
    batch_max_records: int = setting(
        500,
        "Records of one process_batch call, each of another key.",
        "a call without records does nothing",
        low=1,
    )
    max_bytes_key_range_cache: int = setting(
        209_715_200,
        "Bytes of fetched records that wait in the lanes of one process: keys, values, headers "
        "and 600 bytes for each record's objects. Runnable records may take half of them, so "
        "that a key that waits leaves room for others.",
        "below one fetch of 1 MiB nothing would flow",
        low=MIB,
    )
    max_bytes_fetcher_filtering: int = setting(
        104_857_600,
        "The wall for the prefetch of one process, before records are filtered by key range. "
        "The prefetch itself is queued.max.messages.kbytes, 16,384 unless set: pausing throws "
        "it away, so it is kept small.",
        "below one fetch of 1 MiB nothing would flow, and librdkafka takes no more than 2 GiB",
        low=MIB,
        high=2_097_151 * 1024,
    )
