"""The rows that processes leave in files, read while they are written.

In: a folder with `<pid>.rows` (see `benchmarks/handler.py`). Out: rows. A line that is not whole
yet waits for the next reading.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.journal import Place, Row


def row_of(line: bytes, run: int) -> Row:
    """One line.

    >>> row_of(b"2 41 1000 2000 key-7", run=99).place
    (2, 41)
    """
    partition, offset, begun_ns, ended_ns, key = line.split(b" ", 4)
    return Row(
        int(partition), int(offset), key.decode(), int(begun_ns), int(ended_ns), str(run), run
    )


class RowFiles:
    """All rows of one run.

    Attributes:
        rows: As far as they were read.
        places: Where those lie.
    """

    def __init__(self, folder: Path) -> None:
        self.rows: list[Row] = []
        self.places: set[Place] = set()
        self._folder = folder
        self._read_to: dict[Path, int] = {}

    def read(self) -> None:
        """Read what is new."""
        for path in sorted(self._folder.glob("*.rows")):
            with path.open("rb") as file:
                file.seek(self._read_to.get(path, 0))
                whole, end, _ = file.read().rpartition(b"\n")
            self._read_to[path] = self._read_to.get(path, 0) + len(whole) + len(end)
            for line in whole.splitlines():
                row = row_of(line, int(path.stem))
                self.rows.append(row)
                self.places.add(row.place)
