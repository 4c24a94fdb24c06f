"""A module that is killed before and after each of its calls to a Producer.

`python -m tests.support.stepping PLAN`, with a plan as JSON. Partition n of the module's topics
belongs to the run that is killed at step n; then the module runs again there, to its end. Out: for
each partition a line, `killed` or `ended`. Children are forked off a process that has no clients.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from coop_consumer.kafka import publish, transaction_calls
from tests.support.journal import WAIT_S

_ROOT = Path(__file__).parents[2]
_CALLS = (
    "init_transactions",
    "begin_transaction",
    "produce",
    "send_offsets_to_transaction",
    "commit_transaction",
)
_AT_ONCE = 12


def kill_at_every_step(
    module: str, config: Mapping[str, Any], topic: str, steps: int, **constants: int
) -> list[bool]:
    """Whether the run of each partition was killed; False: it ended before its step came.

    Args:
        module: Its `run(config, topic, partition)` does all that is left, as in `examples`.
        config: For it.
        topic: For it.
        steps: How many partitions its topics have.
        constants: Of the module, to be changed.
    """
    plan = {
        "module": module,
        "config": dict(config),
        "topic": topic,
        "steps": steps,
        "constants": constants,
    }
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.stepping", json.dumps(plan)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=4 * WAIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return [line == "killed" for line in ended.stdout.splitlines() if line in ("killed", "ended")]


class _Stepping:
    """A Producer; each call that writes, or is of a transaction, is a step before and after."""

    def __init__(self, producer: Any, step: Callable[[], None]) -> None:
        self._producer, self._step = producer, step

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._producer, name)
        return partial(self._call, name, found) if name in _CALLS else found

    def __len__(self) -> int:
        return len(self._producer)

    def _call(self, name: str, call: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        self._step()
        answer = call(*args, **keywords)
        if name == "produce":
            self._step()
            self._producer.flush(WAIT_S)  # from here on the broker has it
        self._step()
        return answer


def _run(plan: Mapping[str, Any], number: int, kill_at: int | None) -> None:
    module = import_module(plan["module"])
    for name, value in plan["constants"].items():
        assert hasattr(module, name)
        setattr(module, name, value)
    done = 0

    def step() -> None:
        nonlocal done
        if done == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1

    real = publish.Producer
    makers: list[Any] = [publish, transaction_calls, module]
    for it in makers:
        if hasattr(it, "Producer"):
            it.Producer = lambda *a, **k: _Stepping(real(*a, **k), step)
    module.run(plan["config"], plan["topic"], number)


def _forked(plan: Mapping[str, Any], number: int, kill_at: int | None) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.dup2(2, 1)  # what the example prints is no line of ours
        _run(plan, number, kill_at)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - whatever it is, the parent has to hear of it
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def main() -> None:
    plan = json.loads(sys.argv[1])
    import_module(plan["module"])
    waiting = list(range(plan["steps"]))[::-1]
    running: dict[int, tuple[int, bool]] = {}
    was_killed = {}
    while waiting or running:
        while waiting and len(running) < _AT_ONCE:
            number = waiting.pop()
            running[_forked(plan, number, number)] = number, True
        child, status = os.wait()
        number, is_first = running.pop(child)
        if is_first:
            was_killed[number] = os.WIFSIGNALED(status)
        if is_first and was_killed[number]:
            assert os.WTERMSIG(status) == signal.SIGKILL
            running[_forked(plan, number, None)] = number, False
        else:
            assert status == 0, f"the run of partition {number} failed"
    for number in range(plan["steps"]):
        print("killed" if was_killed[number] else "ended")  # noqa: T201 - for the test


if __name__ == "__main__":
    main()
