"""The rows of the table of settings, a module for each section of the documentation. Pure.

A field is the only place that describes its setting. Names, parsing, checks and documentation are
read off the fields (`coop_consumer.config.setting`). Names and figures of the KIP are kept.
"""

from coop_consumer.config.sections.failure import FailureSettings
from coop_consumer.config.sections.group import GroupSettings
from coop_consumer.config.sections.memory import MemorySettings
from coop_consumer.config.sections.progress import ProgressSettings
from coop_consumer.config.sections.sharing import SharingSettings
from coop_consumer.config.sections.state import StateSettings
from coop_consumer.config.sections.timing import TimingSettings

__all__ = [
    "FailureSettings",
    "GroupSettings",
    "MemorySettings",
    "ProgressSettings",
    "SharingSettings",
    "StateSettings",
    "TimingSettings",
]
