"""The provider of login tokens that a configuration names: how it is found, and what it may return.

In: `module:callable`, as text, so it travels to other processes; an answer of the callable. Out:
the callable; a `LoginToken`, or an error that says what is wrong with the answer. No clock and no
thread: time is an argument. A token is in no text that is made here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from traceback import walk_tb
from typing import TypeGuard

from coop_consumer.errors import ConfigError
from coop_consumer.log_events import kind_of
from coop_consumer.plain_text import printable, shortened

PROVIDER = "oauth.token.provider"
RETURNS = (
    "Return (token, expiry): a text, and its end in Unix seconds; a principal and a dict of "
    "extensions may follow"
)

_LATEST_S = 4_102_444_800.0
"""The year 2100 in Unix seconds: a later expiry is in milliseconds."""
_ERROR_CHARS = 200


@dataclass(frozen=True, slots=True)
class LoginToken:
    """A token, and until when brokers accept it.

    Attributes:
        value: The token.
        expiry_s: Its end, in Unix seconds.
        principal: The user that it is of; "": the broker reads it from the token.
        extensions: What the login says besides.
    """

    value: str = field(repr=False)
    expiry_s: float
    principal: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


def found_provider(spec: str) -> Callable[[], object]:
    """Import the callable of `module:callable`.

    Raises:
        ConfigError: There is none.
    """
    module_name, _, name = spec.partition(":")
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:
        # The text of these is Python's own, about modules and lines.
        is_ours = isinstance(error, ImportError | SyntaxError)
        told = _described(error) if is_ours else raised_by(error)
        raise ConfigError(
            PROVIDER,
            f"={spec} cannot be imported ({told})",
            "Name it as module:callable; the module has to lie in PYTHONPATH, and for commands may "
            "lie in the current directory",
        ) from error
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        problem = f"={spec}: module {module_name} has no function {name}"
        raise ConfigError(PROVIDER, problem, "Correct the name")
    return found


def token_of(answer: object, now_s: float, spec: str) -> LoginToken:
    """The token that a provider has returned.

    Args:
        answer: What it has returned.
        now_s: The time, in Unix seconds.
        spec: Names the provider, for the error.

    Raises:
        ConfigError: It is no token, or one that has expired.
    """
    match answer:
        case [str() as value, int() | float() as expiry_s, *others] if len(others) <= 2:
            principal, extensions = (*others, None, None)[:2]
        case _:
            raise _useless(spec, _kind_of(answer))
    if isinstance(expiry_s, bool):
        raise _useless(spec, _kind_of(answer))
    if not _is_word(value):
        raise _useless(spec, "a token that is empty, or has characters that no token has")
    if not math.isfinite(expiry_s) or expiry_s > _LATEST_S:
        raise _useless(spec, f"the expiry {expiry_s:g}, which is no time in Unix seconds")
    if expiry_s <= now_s:
        raise _useless(spec, f"a token that expired {now_s - expiry_s:.0f} s ago")
    if not (principal is None or (isinstance(principal, str) and principal.isprintable())):
        raise _useless(spec, "a principal that is no printable text")
    if extensions is None:
        extensions = {}
    if not _are_extensions(extensions):
        raise _useless(spec, "extensions that are no dict of texts")
    return LoginToken(value, float(expiry_s), principal or "", dict(extensions))


def raised_by(error: BaseException) -> str:
    """What a provider has raised, and where, without its text: that may quote a secret.

    The errors of HTTP libraries carry addresses, and these a password or a token.

    Args:
        error: As it was caught by whoever called the provider, or imported it.
    """
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    outer = [it for it in frames[1:] if "importlib" not in it[0]]  # the first one caught it
    own = [it for it in outer if it[0] == outer[0][0]]  # not those of libraries below
    where = " in {}:{}".format(*own[-1]) if own else ""
    return printable(f"{kind_of(error)}{where}")


def _described(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return shortened(printable(f"{kind_of(error)}: {text}"), _ERROR_CHARS)


def _useless(spec: str, what: str) -> ConfigError:
    return ConfigError(PROVIDER, f"={spec} has returned {what}", RETURNS)


def _kind_of(answer: object) -> str:
    """What an answer is, without its values: one may be the token."""
    if isinstance(answer, tuple | list):
        kinds = ", ".join(type(item).__name__ for item in answer)
        return f"({kinds})"
    return f"an object of the type {type(answer).__name__}"


def _is_word(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _are_extensions(given: object) -> TypeGuard[Mapping[str, str]]:
    return isinstance(given, Mapping) and all(
        isinstance(it, str) and _is_word(it) for pair in given.items() for it in pair
    )
