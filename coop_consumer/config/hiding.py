"""Values that no text may show: `***` stands for them. Pure.

Room: `coop_consumer.config`. In: errors about settings, values that are secrets. Out: the same
errors without these values. An error that is raised again here has lost its cause: a client's own
error may quote the value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from coop_consumer.config.setting import shown
from coop_consumer.errors import ConfigError
from coop_consumer.plain_text import printable

HIDDEN = "***"
_SHORT = 4
"""A shorter value is replaced only where it stands alone: "1" is a part of many numbers."""


def without(text: str, values: Collection[object]) -> str:
    """The text with `***` in the place of each of these values, however a message shows them.

    >>> without("max.attempts=0 is below 1: the first attempt counts", ["0"])
    'max.attempts=*** is below 1: the first attempt counts'
    """
    texts = [str(it) for value in values for it in (value if isinstance(value, list) else [value])]
    forms = {form for it in texts for form in (it, printable(it), shown(it)) if form}
    for form in sorted(forms, key=lambda form: (-len(form), form)):
        edge = r"(?<![\w.]){}(?![\w])" if len(form) < _SHORT else "{}"
        text = re.sub(edge.format(re.escape(form)), HIDDEN, text)
    return text


@contextmanager
def hiding(values: Collection[object]) -> Iterator[None]:
    """Keep these values out of the errors about settings that the block raises.

    Raises:
        ConfigError: As the block does.
    """
    try:
        yield
    except ConfigError as error:
        if not values:
            raise
        found = replace(
            error, problem=without(error.problem, values), remedy=without(error.remedy, values)
        )
        raise found from None
