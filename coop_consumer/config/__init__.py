"""The door for settings: one dict of dotted names in, one frozen `Config` out.

Room: `coop_consumer`; no Kafka import, no thread. `choices` has the enums, `setting` the noun of
the table, `settings` the table itself, `librdkafka` the names that are not ours, `security` the
translation of TLS and logins, `config` the `Config` with its view for each client,
`properties_file` the text form, and `reference` the documentation made from the table.
"""

from coop_consumer.config.choices import (
    AssignorName,
    IsolationLevel,
    OffsetReset,
    OnDataLoss,
    OnFailure,
    OnOverdue,
    Ordering,
    Split,
    UpgradeFrom,
)
from coop_consumer.config.config import Config
from coop_consumer.config.librdkafka import SECRETS
from coop_consumer.config.properties_file import parse_option, read_config_file
from coop_consumer.config.settings import TopicNames, checked_topics, sendable

__all__ = [
    "SECRETS",
    "AssignorName",
    "Config",
    "IsolationLevel",
    "OffsetReset",
    "OnDataLoss",
    "OnFailure",
    "OnOverdue",
    "Ordering",
    "Split",
    "TopicNames",
    "UpgradeFrom",
    "checked_topics",
    "parse_option",
    "read_config_file",
    "sendable",
]
