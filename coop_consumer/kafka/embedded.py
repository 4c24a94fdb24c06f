"""Former name of `coop_consumer.broker`, kept for scripts that import it."""

from coop_consumer.broker import *  # noqa: F403
