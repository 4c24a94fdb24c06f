"""Finds the worker that a command line names as `module:Class`.

In: that text. Out: an instance of the class. It runs the user's module, in this process, with the
current directory to be imported from.
"""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

from coop_consumer.errors import WorkerImportError
from coop_consumer.worker import Worker


def load_worker(spec: str) -> Worker:
    """Import the module of `module:Class` and make a worker.

    Raises:
        WorkerImportError: The text is no such name, the module or class is not there or fails, or
            the class is no `Worker` with a `process` of its own.
    """
    module_name, colon, class_name = spec.partition(":")
    if not (module_name and colon and class_name):
        raise WorkerImportError(spec, "it is not of the form module:Class")
    found = getattr(_module(spec, module_name), class_name, None)
    if found is None:
        raise WorkerImportError(spec, _absent(sys.modules[module_name], class_name))
    if not (isinstance(found, type) and issubclass(found, Worker)):
        raise WorkerImportError(spec, f"{class_name} does not derive from coop_consumer.Worker")
    if found.process is Worker.process:
        raise WorkerImportError(spec, f"{class_name} has no process(self, record)")
    try:
        return found()
    except (Exception, SystemExit) as error:  # sys.exit(0) in there would look like success
        raise WorkerImportError(spec, f"{class_name}() raised {_short(error)}") from error


def _module(spec: str, name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise WorkerImportError(
                spec, f"no module {error.name} in {here} or PYTHONPATH"
            ) from error
        raise WorkerImportError(spec, f"module {name} needs {error.name}, not installed") from error
    except (Exception, SystemExit) as error:  # a script without a main guard, most likely
        raise WorkerImportError(spec, f"module {name} raised {_short(error)}") from error


def _absent(module: ModuleType, class_name: str) -> str:
    workers = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Worker) and value is not Worker
    ]
    near = get_close_matches(class_name, workers, n=1, cutoff=0.0)
    hint = f"; it has {near[0]}" if near else "; it has no Worker at all"
    return f"module {module.__name__} has no {class_name}{hint}"


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
