"""What pyproject.toml cannot say: a README whose links lead somewhere on a package index, too.

The links of README.md are relative, so that they hold in each checkout. A page of an index has no
files beside it.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
_LINK = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")


def absolute(text: str, repository: str) -> str:
    """A page of the repository's root, with links that hold anywhere."""
    return _LINK.sub(rf"]({repository}/blob/main/\1)", text)


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    setup(
        long_description=absolute(
            (ROOT / "README.md").read_text(encoding="utf-8"), project["urls"]["Repository"]
        ),
        long_description_content_type="text/markdown",
    )
