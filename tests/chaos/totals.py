"""Workers whose outputs show everything that ever happened to a key.

In: records. Out: an output a record. `Totals` folds the places of a key's records into its state,
and sends state and place. So an output is right, byte for byte, only if every record before it
counted exactly once, in its order. `Places` keeps no state, and sends the place alone; it runs in
child processes, too. The judge (`tests/chaos/outputs.py`) makes the fold anew.
"""

from __future__ import annotations

import os
from zlib import crc32

from coop_consumer import Context, Record
from tests.support import members
from tests.support.members import TellingWorker

RUN, GENERATION = "run", "generation"
"""Headers: the process, and the newest generation that it knew."""


class Places(TellingWorker):
    """Sends each record's place to the only topic of outputs."""

    def setup(self, context: Context) -> None:
        self._context = context
        (self._outputs,) = context.config.output_names

    def process(self, record: Record) -> None:
        headers = [(RUN, str(os.getpid())), (GENERATION, str(members.generation))]
        self._context.send(record, self._outputs, record.key, self._output(record), headers)
        super().process(record)

    def _output(self, record: Record) -> str:
        return f"{record.partition}/{record.offset}"


class Totals(Places):
    """Sends also what the key's records come to so far."""

    keyed_state = True

    def _output(self, record: Record) -> str:
        place = super()._output(record)
        count, checksum = (self._context.state.get(record) or b"0 0").split()
        total = f"{int(count) + 1} {crc32(place.encode(), int(checksum, 16)):x}"
        self._context.state.put(record, total.encode())
        return f"{place} {total}"
