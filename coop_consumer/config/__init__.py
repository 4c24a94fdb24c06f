"""The door for settings: one dict of dotted names in, one frozen `Config` out.

Room: `coop_consumer`; no Kafka import, no thread.

    settings         the table of our settings       sections    its rows, a section a module
    setting          one row of the table            choices     its enums
    patterns         what its texts must look like  topic_choice  topics by name and by pattern
    contradictions   pairs that exclude each other   roles       what a group uses a topic for
    librdkafka       names that are not ours         passed      those that are set, checked
    security         TLS and logins
    config           the `Config`, with its view for each client
    placeholders     `${env:...}` and `${file:...}`  hiding      keeps secrets out of errors
    properties_file  the text form                   reference   the table as documentation
    settings_dict    the names for type checkers     typed_reference   makes it of the table
"""

from coop_consumer.config.choices import (
    AssignorName,
    Balance,
    ExecutorName,
    Guarantee,
    IsolationLevel,
    LogKeys,
    OffsetReset,
    OnDataLoss,
    OnFailure,
    OnOverdue,
    Ordering,
    Split,
    Tracing,
    UpgradeFrom,
)
from coop_consumer.config.config import Config
from coop_consumer.config.librdkafka import SECRETS
from coop_consumer.config.patterns import sendable
from coop_consumer.config.properties_file import parse_option, read_config_file
from coop_consumer.config.settings import TopicNames, checked_topics, chosen_topics
from coop_consumer.config.settings_dict import Settings
from coop_consumer.config.topic_choice import TopicChoice, choice_of, named_only

__all__ = [
    "SECRETS",
    "AssignorName",
    "Balance",
    "Config",
    "ExecutorName",
    "Guarantee",
    "IsolationLevel",
    "LogKeys",
    "OffsetReset",
    "OnDataLoss",
    "OnFailure",
    "OnOverdue",
    "Ordering",
    "Settings",
    "Split",
    "TopicChoice",
    "TopicNames",
    "Tracing",
    "UpgradeFrom",
    "checked_topics",
    "choice_of",
    "chosen_topics",
    "named_only",
    "parse_option",
    "read_config_file",
    "sendable",
]
