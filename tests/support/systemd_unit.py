"""The unit of `deploy/systemd`, read as systemd reads it.

In: the file. Out: the settings of a section, and the words by which it starts a member of the group
billing.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "coop-consumer@.service"
_RUN = "billing:Billing --topics orders"
"""COOP_RUN of its file of variables, as docs/kubernetes.md has it."""


def settings(section: str) -> dict[str, str]:
    """The settings of a section of the unit; a backslash ends a line that goes on in the next."""
    text = re.sub(r"\\\n\s*", "", UNIT.read_text(encoding="utf-8"))
    body = text.partition(f"[{section}]\n")[2].partition("\n[")[0]
    lines = [line for line in body.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def start_of_unit() -> list[str]:
    """The words by which it starts a member of the group billing."""
    given = settings("Service")
    line = given["ExecStart"].replace("%i", "billing")
    name, _, value = given["Environment"].partition("=")
    for variable, text in ((f"${{{name}}}", value), ("$COOP_RUN", _RUN)):
        assert line.count(variable) == 1
        line = line.replace(variable, text)
    return shlex.split(line)
