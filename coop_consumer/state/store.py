"""The store of one partition: RocksDB. It holds only what is surely in the changelog.

In: batches of changes with their positions. Out: bytes by key. Changes and positions are written in
one batch of one column family, and RocksDB writes its memory to disk in order. So after a kill -9
the disk has all batches up to one of them, and its positions fit its data. This needs neither a log
of its own (the changelog is one) nor a sync. Keys begin with their hash, so a range is one piece.
"""

from __future__ import annotations

import importlib
import logging
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from assignors import KeyRange, key_hash
from coop_consumer.errors import ConfigError
from coop_consumer.log_events import LogEvent
from coop_consumer.state.positions import Positions, decode, encode

log = logging.getLogger(__name__)

CACHE_BYTES = 32 << 20
"""Memory of all stores of a pool: blocks that were read, and writes that are not on disk yet."""
_WRITE_BUFFER_BYTES = 4 << 20
_OPEN_FILES_MAX = 64
_HASH_BYTES = 8
_META = b"\xff"  # a hash has 63 bits, so no key begins like this


class Memory:
    """Options and memory that all stores of a pool share.

    Raises:
        ConfigError: Without the package rocksdict.
    """

    def __init__(self) -> None:
        try:
            self._rocks: Any = importlib.import_module("rocksdict")
        except ImportError as error:
            raise ConfigError(
                "keyed_state",
                "needs the package rocksdict, which is not installed",
                "Install coop-consumer[state]",
            ) from error
        rocks = self._rocks
        self._cache = rocks.Cache(CACHE_BYTES)
        self._buffers = rocks.WriteBufferManager.new_write_buffer_manager_with_cache(
            CACHE_BYTES // 2, False, self._cache
        )
        self.without_log = rocks.WriteOptions()
        self.without_log.disable_wal = True  # an attribute, although its stub says otherwise

    def open(self, path: Path) -> Any:
        """Open a database; create it if it is missing."""
        rocks = self._rocks
        blocks = rocks.BlockBasedOptions()
        blocks.set_block_cache(self._cache)
        blocks.set_bloom_filter(10, False)
        options = rocks.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(blocks)
        options.set_write_buffer_manager(self._buffers)
        options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
        options.set_max_write_buffer_number(2)
        options.set_max_open_files(_OPEN_FILES_MAX)
        options.set_keep_log_file_num(1)
        options.set_stats_dump_period_sec(0)
        options.set_stats_persist_period_sec(0)
        found = rocks.Rdict(str(path), options)
        found.set_write_options(self.without_log)
        return found

    def batch(self) -> Any:
        """An empty batch of changes."""
        return self._rocks.WriteBatch(raw_mode=True)


class Store:
    """State by key, for any threads; only one at a time may call `write` and `forget`.

    A store that cannot be opened, or belongs to another changelog, is deleted: it begins empty.

    Args:
        path: Its own directory.
        memory: What it shares with others.
        changelog_id: The topic id of the changelog that its positions refer to.

    Attributes:
        positions: Up to where it is valid.
    """

    def __init__(self, path: Path, memory: Memory, changelog_id: bytes) -> None:
        self._path, self._memory, self._changelog_id = path, memory, changelog_id
        path.parent.mkdir(parents=True, exist_ok=True)
        positions = self._open()
        if positions is None:
            shutil.rmtree(path, ignore_errors=True)
            positions = self._open()
        assert positions is not None, f"{path} is new, and cannot be read"
        self.positions: Positions = positions

    def _open(self) -> Positions | None:
        is_new = not (self._path / "CURRENT").exists()
        try:
            self._db = self._memory.open(self._path)
        except Exception as error:
            if is_new:
                raise
            self._report(
                "%s cannot be opened (%s): its state is restored from the changelog, nothing lost",
                error,
            )
            return None
        try:
            told = self._db.get(_META)
        except Exception as error:  # noqa: BLE001 - whatever is broken, the changelog has all of it
            self._report(
                "%s cannot be read (%s): its state is restored from the changelog, nothing is lost",
                error,
            )
            told = b""
        if told is None:
            return ()  # without its first batch, the disk has no data
        positions = decode(told, self._changelog_id)
        if positions is None:
            self._db.close()
        return positions

    def _report(self, text: str, error: Exception) -> None:
        log.warning(text, self._path, error, extra=LogEvent.STATE_DAMAGED.extra(error=error))

    def get(self, key: bytes) -> bytes | None:
        """The bytes of a key. About 3 µs."""
        found: bytes | None = self._db.get(_stored(key))
        return found

    def write(
        self, changes: Mapping[bytes, bytes | None], positions: Positions | None = None
    ) -> None:
        """Change keys (None: delete) and positions (None: unchanged), all or nothing."""
        batch = self._memory.batch()
        for key, value in changes.items():
            if value is None:
                batch.delete(_stored(key))
            else:
                batch.put(_stored(key), value)
        self._commit(batch, positions)

    def forget(self, ranges: Iterable[KeyRange], positions: Positions) -> None:
        """Delete all keys of these ranges."""
        batch = self._memory.batch()
        for key_range in ranges:
            batch.delete_range(_hashed(key_range.lo), _hashed(key_range.hi + 1))
        self._commit(batch, positions)

    def _commit(self, batch: Any, positions: Positions | None) -> None:
        if positions is not None:
            batch.put(_META, encode(positions, self._changelog_id))
        self._db.write(batch, self._memory.without_log)
        if positions is not None:
            self.positions = positions

    def flush(self, *, wait: bool) -> None:
        """Write to disk what is in memory; a restart reads the changelog from there on."""
        self._db.flush(wait)

    def close(self) -> None:
        """Flush and close."""
        self._db.flush(True)
        self._db.close()


def _hashed(hash_: int) -> bytes:
    return hash_.to_bytes(_HASH_BYTES, "big")


def _stored(key: bytes) -> bytes:
    return key_hash(key).to_bytes(_HASH_BYTES, "big") + key
