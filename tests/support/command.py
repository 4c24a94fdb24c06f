"""`coop-consumer` as a process; `run` with a worker that obeys a test.

In: a job and options. Out: the lines that the command prints. That worker prints which record it
begins and in which process. It goes on when a line comes on stdin, or when stdin is closed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue

from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.offspring import kill_with_children

WORKER = """
import os
import resource
import signal
import sys
import threading
import logging
from coop_consumer import Worker

if os.path.exists("hold"):
    with open("hold") as hold:  # a pipe: until the test writes to it
        hold.read()

class Led(Worker):
    def process(self, record):
        # (In one piece: two processes may say it at once.)
        os.write(1, b"begin %d in process %d\\n" % (record.offset, os.getpid()))
        sys.stdin.readline()

class Signalled(Worker):
    def process(self, record):
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

class Hoarding(Led):
    hoard = []

    def process(self, record):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        try:
            while True:
                self.hoard.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            super().process(record)

class Freezing(Led):
    def process(self, record):
        from coop_consumer.member.inbox import Inbox
        from coop_consumer.ops import health
        health.STEP_MAX_S = 1.5  # nobody waits for 10 s
        Inbox.next = lambda *_: threading.Event().wait()  # the member's thread stands still
        super().process(record)

class Logging(Worker):
    def process(self, record):
        logging.getLogger("billing").warning("paid", extra={"bill": record.offset})

class Failing(Worker):
    def process(self, record):
        raise ValueError("no route")

class LedSetup(Led):
    def setup(self, context):
        print("getting ready", flush=True)
        sys.stdin.readline()
"""


class Started:
    """One `coop-consumer` and the lines it has printed.

    Args:
        folder: Where to run it.
        words: Of the command line.
    """

    def __init__(self, folder: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coop_consumer.cli", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def wait_for(self, text: str) -> str:
        """Wait for the next line that contains `text`."""
        seen = []
        while text not in (line := self._lines.get(timeout=WAIT_S)):
            seen.append(line)
            assert line, f"ended without {text!r}:\n{''.join(seen)}"
        return line

    def end(self) -> int:
        """Wait for the command's end; returns the exit code."""
        return self.process.wait(WAIT_S)

    def put_away(self) -> None:
        """End the command and all its processes, whatever has happened."""
        kill_with_children(self.process)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self._reader.join(WAIT_S)
        self.process.stdout.close()
        self.process.wait()


class Command(Started):
    """One `coop-consumer run` of a worker that obeys a test.

    Args:
        folder: Where to run it; the worker's module is written there.
        orders: The group and its topic.
        worker: Which of the workers above.
        options: More words of the command line.

    Attributes:
        file: The file of settings; it has the number of workers.
    """

    def __init__(self, folder: Path, orders: Job, worker: str, *options: str) -> None:
        (folder / "led.py").write_text(WORKER, encoding="utf-8")
        given = [f"--config={name}={value}" for name, value in orders.settings.items()]
        self.file = folder / "led.properties"
        self.file.write_text("workers=1\n", encoding="utf-8")
        settings = ["--config-file", str(self.file), *given]
        line = ["run", f"led:{worker}", "--topics", orders.topic, *settings]
        super().__init__(folder, *line, *options)

    def go_on(self) -> None:
        """Let the worker go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def let_all_go(self) -> None:
        """Let the worker go on with all records that run or ever will."""
        assert self.process.stdin is not None
        self.process.stdin.close()
