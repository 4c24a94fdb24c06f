"""Former name of `coop_consumer.broker`: scripts that know it by this one go on working."""

from coop_consumer.broker import *  # noqa: F403
