"""`python -m coop_consumer.broker`: bring the broker's jars into the cache, as set-up does.

Room: `coop_consumer.broker`. Out: exit code 0 and the folder's name, or a message that says
what is missing. Touches what `jars` touches.
"""

from __future__ import annotations

import logging
import sys

from coop_consumer.broker.jars import ensure_jars
from coop_consumer.errors import CoopConsumerError, exit_code_of
from coop_consumer.log_events import LogEvent


def main() -> int:
    """Fetch or verify the jars; 3 to 60 s the first time, 0.1 s after. Returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    log = logging.getLogger("coop_consumer.broker")
    try:
        ready = LogEvent.JARS_READY.extra()
        log.info("the broker's jars are in %s", ensure_jars(), extra=ready)
    except CoopConsumerError as error:
        failed = LogEvent.JARS_FAILED.extra(error=error)
        log.error("%s", error, extra=failed)  # noqa: TRY400 - the text suffices
        return exit_code_of(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
