"""librdkafka's settings among those that a user gives: which are passed on, and with what values.

Room: `coop_consumer.config`. Pure. In: names and values. Out: one name for each setting, checked
values, or a `ConfigError` that names the setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from coop_consumer.config.librdkafka import (
    ALIASES,
    BOUNDS,
    DECIDED,
    LIBRDKAFKA_ALONE,
    PASSED,
    refusal_of,
)
from coop_consumer.config.security import Passed
from coop_consumer.config.setting import NUMBER_MAX, shown, unsendable
from coop_consumer.config.settings import SETTINGS
from coop_consumer.errors import ConfigError

_NAME_MAX = 100
"""Characters of an unknown name that are compared with the known ones."""


def by_first_names(mapping: Mapping[str, object]) -> dict[str, object]:
    """The mapping with one name for each setting; saying a thing twice must say the same."""
    named: dict[str, object] = {}
    spelled: dict[str, str] = {}
    for spelling, value in mapping.items():
        if not isinstance(spelling, str):
            raise ConfigError(
                f"the name {shown(spelling)}", "is not text", "Name each setting by a text"
            )
        name = ALIASES.get(spelling, spelling)
        if name in named and not _is_same(named[name], value):
            raise ConfigError(
                spelling,
                f"is another name of {spelled[name]}, and the two differ",
                f"Set {name} alone",
            )
        named[name] = value
        spelled[name] = spelling
    return named


def passed_on(name: str, value: object, *, both_clients: bool) -> dict[str, Passed]:
    """The setting to pass to librdkafka, or nothing if it only repeats what is decided here."""
    if name in DECIDED:
        decided = DECIDED[name]
        if isinstance(value, str | int) and shown(value).strip().lower() in decided.values:
            return {}
        raise ConfigError(
            name,
            f"={shown(value)} is not possible: {decided.why}",
            f"Leave it out, or set it to {decided.values[0]}",
        )
    known = PASSED if both_clients else PASSED | LIBRDKAFKA_ALONE
    refusal = None if name in known else refusal_of(name)
    if refusal is not None:
        raise ConfigError(name, f"may not be set: {refusal.why}", refusal.remedy)
    if name not in known:
        raise _unknown(name, known)
    if not isinstance(value, str | int | float):
        kind = type(value).__name__
        raise ConfigError(name, f"is of the type {kind}", "Give text, a number, true or false")
    if not isinstance(value, str) and not abs(value) <= NUMBER_MAX:  # nor is NaN
        problem = f"={shown(value)} is no number that a client takes"
        raise ConfigError(name, problem, "Give a number of 64 bits")
    unsent = unsendable(str(value), controls=True)
    if unsent is not None:
        raise ConfigError(name, unsent, "Give the text without that character")
    return {name: value}


def _unknown(name: str, passed: Iterable[str]) -> ConfigError:
    if name == "executor":
        remedy = (
            "Give it as an argument: executor= of WorkerPool, or --executor of `coop-consumer run`"
        )
        return ConfigError(name, "is no setting", remedy)
    known = [*SETTINGS, *passed, *ALIASES]
    nearest = get_close_matches(name[:_NAME_MAX].lower().replace("_", "."), known, n=1)
    remedy = (
        f"The nearest name is {nearest[0]}"
        if nearest
        else "No known name is near to it: docs/configuration.md lists all of them"
    )
    return ConfigError(shown(name), "is unknown to this library and to librdkafka", remedy)


def number_of(passed: Mapping[str, Passed], name: str, default: int) -> int:
    """A passed number, which may be text; `default` if it is not set.

    Raises:
        ConfigError: It is no whole number.
    """
    value = passed.get(name, default)
    try:
        number = int(value)
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            name, f"={shown(value)} is not a whole number", "Give digits only"
        ) from error
    if abs(number) > NUMBER_MAX or (isinstance(value, float) and number != value):
        raise ConfigError(name, f"={shown(value)} is not a whole number", "Give digits only")
    return number


def check_bound(passed: Mapping[str, Passed], name: str) -> None:
    """See that a passed number is within its bound (`BOUNDS`).

    Raises:
        ConfigError: It is not.
    """
    number, bound = number_of(passed, name, 0), BOUNDS[name]
    if bound.zero and number == 0:
        return
    if bound.low is not None and number < bound.low:
        problem = f"={number} is below {bound.low}: {bound.why}"
    elif bound.high is not None and number > bound.high:
        problem = f"={number} is above {bound.high}: {bound.why}"
    else:
        return
    raise ConfigError(name, problem, f"Choose {bound.words}")


def check_prefetch(passed: Mapping[str, Passed], wall_bytes: int) -> None:
    """See that what is prefetched fits into the memory that a member may use for it.

    Raises:
        ConfigError: It does not.
    """
    prefetch_kbytes = number_of(passed, "queued.max.messages.kbytes", 0)
    if prefetch_kbytes * 1024 > wall_bytes:
        raise ConfigError(
            "queued.max.messages.kbytes",
            f"={prefetch_kbytes} is above max.bytes.fetcher.filtering={wall_bytes} bytes",
            f"Choose {wall_bytes // 1024} or less, or raise max.bytes.fetcher.filtering",
        )


def _is_same(value: object, other: object) -> bool:
    try:
        return bool(value == other)
    except Exception:  # noqa: BLE001 - a stranger's comparison
        return value is other


def is_empty(value: object) -> bool:
    """Whether a setting is as good as not set."""
    return value is None or (isinstance(value, str) and not value)
