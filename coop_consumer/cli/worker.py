"""Finds the worker that a command line names as `module:Class`.

In: that text. Out: an instance of the class, or the instance that it names. It runs the user's
module, in this process, with the current directory to be imported from.
"""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

from coop_consumer.errors import MisuseError, WorkerImportError
from coop_consumer.own_modules import hidden_in, hides
from coop_consumer.worker import Worker, worker_of

_GUARD = (
    "Correct the module; what it does as a program, such as a pool of its own, belongs below "
    "if __name__ == '__main__'"
)


def load_worker(spec: str) -> Worker:
    """Import the module of `module:Class` and make a worker.

    Raises:
        WorkerImportError: The text is no such name, the module or class is not there or fails, or
            the class is no `Worker` that a `WorkerPool` takes.
    """
    module_name, colon, class_name = spec.partition(":")
    if not (module_name and colon and class_name):
        raise WorkerImportError(spec, "it is not of the form module:Class")
    found = getattr(_module(spec, module_name), class_name, None)
    if found is None:
        raise WorkerImportError(spec, _absent(sys.modules[module_name], class_name))
    try:
        return worker_of(found)
    except MisuseError as error:
        raise WorkerImportError(spec, error.problem, error.remedy) from None
    except (Exception, SystemExit) as error:  # sys.exit(0) in there would look like success
        problem = f"{class_name}() raised {_short(error)}"
        raise WorkerImportError(spec, problem, f"Correct {class_name}.__init__") from error


def import_from_here() -> str:
    """Let modules be imported from the current directory, as `python -m` does; returns its path."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    return here


def _module(spec: str, name: str) -> ModuleType:
    here = import_from_here()
    if (hidden := hidden_in(here)) is not None:
        own, path = hidden
        problem = hides(own, path)
        remedy = f"Rename {path}"
        if os.path.isdir(os.path.join(here, "coop_consumer")):
            remedy = "This folder is a checkout of coop-consumer: work in another one"
        raise WorkerImportError(spec, problem, remedy)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise WorkerImportError(
                spec, f"no module {error.name} in {here} or PYTHONPATH"
            ) from error
        problem = f"module {name} imports {error.name}, which is not installed"
        raise WorkerImportError(spec, problem, f"Install {error.name}") from error
    except (Exception, SystemExit) as error:  # a script without a main guard, most likely
        problem = f"module {name} raised {_short(error)}"
        raise WorkerImportError(spec, problem, _GUARD) from error


def _absent(module: ModuleType, class_name: str) -> str:
    workers = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Worker) and value is not Worker
    ]
    near = get_close_matches(class_name, workers, n=1, cutoff=0.0)
    hint = f"; it has {near[0]}" if near else "; it has no Worker at all"
    return f"module {module.__name__}, {_place(module)}, has no {class_name}{hint}"


def _place(module: ModuleType) -> str:
    """Where a module is: another one of the same name may hide the one that was meant."""
    if module.__file__ is not None:
        return module.__file__
    folders = ", ".join(getattr(module, "__path__", ()))  # of a package without __init__.py
    return f"the folder {folders}" if folders else "which is built in"


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
