"""A group of four, seen as its operator sees it: a key gets stuck, and everything says so.

    make operate
    python examples/operate.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker; without it the script starts one, and ends it
--topic NAME            a new topic, which the script makes; also the group's name

It starts four members, an exporter, the page, and a Prometheus if the machine has one (Debian's
package `prometheus`). A producer goes on all the while. One customer's payments cannot be handled:
after three attempts the key is parked, and the others go on.
"""

import argparse
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import Record, Worker
from coop_consumer.broker import EmbeddedBroker

MEMBERS, PARTITIONS, CUSTOMERS, PER_S, LIMIT_S = 4, 3, 40, 200, 60.0
ENDED_AT_ONCE = (-signal.SIGTERM, 128 + signal.SIGTERM)
"""How a process ends by a SIGTERM that it does not handle yet."""
ASK_FOR_THE_END = (signal.SIGINT, signal.SIGTERM)
ALERTS = Path(__file__).parents[1] / "deploy" / "prometheus" / "alerts.yaml"


class Payments(Worker):
    """Takes 10 ms for a payment. One customer's fail."""

    def process(self, record: Record) -> None:
        """Handle one."""
        if record.key == b"customer-13":
            raise ValueError("its card has expired")
        time.sleep(0.01)


def end_once(*_: object) -> None:
    """Handle the first signal. A second one would interrupt the end of what this script started."""
    for number in ASK_FOR_THE_END:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def free_address() -> str:
    """One that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return f"127.0.0.1:{found.getsockname()[1]}"


def make_topic(bootstrap: str, name: str) -> None:
    """A topic that was not there before."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if refused := admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].exception():
        raise SystemExit(f"{name}: {refused.args[0].str()} Is a broker up? A new --topic?")


@contextmanager
def program(log: Path, up: str, failed: list[str], *command: str) -> Iterator[None]:
    """Run a program for a block; what it says goes to a file. It ends by SIGTERM, in order.

    Args:
        log: The file.
        up: What it says once it ends in order by a SIGTERM.
        failed: Gets its name if it ended by itself with an error, or did not end in order.
        command: Its command line.
    """
    with log.open("w") as file:
        process = subprocess.Popen(  # noqa: S603 - our own commands
            command,
            stdout=file,
            stderr=file,
            cwd=Path(__file__).parent,
            start_new_session=True,  # a Ctrl-C is for this script, which ends them in their order
        )
    try:
        yield
    finally:
        was_running = process.poll() is None
        process.terminate()
        code, said = process.wait(), log.read_text()
        # A command that is not up yet ends by the signal, or says so by its exit code.
        if code != 0 and not (was_running and code in ENDED_AT_ONCE and up not in said):
            failed.append(log.stem)
            how = "was ended with" if was_running else "ended by itself with"
            print(f"{log.stem} {how} exit code {code}:\n{said}", flush=True)


@contextmanager
def paying(bootstrap: str, topic: str) -> Iterator[None]:
    """Produce payments for a block."""
    ending = threading.Event()

    def pay() -> None:
        quiet = {"log_level": 3}  # no warnings of librdkafka between our lines
        producer, number = Producer({"bootstrap.servers": bootstrap} | quiet), 0
        while not ending.wait(1 / PER_S):
            producer.produce(topic, f"payment {number}", f"customer-{number % CUSTOMERS}")
            producer.poll(0)
            number += 1
        producer.flush()

    thread = threading.Thread(target=pay)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def scraping(*targets: str) -> dict[str, Any]:
    """The configuration of Prometheus: it scrapes these, and evaluates alerts as often.

    By default it evaluates them once a minute, which is long for whoever watches.
    """
    return {
        "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": "coop", "static_configs": [{"targets": [*targets]}]}],
    }


def parked(page: str, group: str) -> tuple[str, dict[str, Any]]:
    """The place of a record that is parked, and what the page's API says of it."""
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        with suppress(URLError, ConnectionError), urlopen(f"{page}/api/status/{group}") as answer:  # noqa: S310
            for it in json.load(answer)["partitions"]:
                for record in it["failed"]:
                    if record["parked"]:
                        return f"{it['topic']}-{it['partition']}@{record['offset']}", record
        time.sleep(0.2)
    raise SystemExit(f"nothing was parked within {LIMIT_S:.0f} s")


def main(options: argparse.Namespace, failed: list[str]) -> None:
    """Start everything, wait for the stuck key, say where to look, end everything.

    `failed` gets the names of the programs that did not end in order.
    """
    group, bootstrap = options.topic, options.bootstrap
    with ExitStack() as stack:
        if bootstrap is None:
            bootstrap = stack.enter_context(EmbeddedBroker()).bootstrap_servers
        make_topic(bootstrap, group)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="coop-operate-")))

        def start(name: str, up: str, *words: str) -> None:
            command = [sys.executable, "-m", "coop_consumer.cli", *words, "--bootstrap", bootstrap]
            stack.enter_context(program(folder / f"{name}.log", up, failed, *command))

        members = [free_address() for _ in range(MEMBERS)]
        for number, address in enumerate(members):
            where = ("--topics", group, "--group", group, "--workers", "8", f"--ops={address}")
            words = ("run", "operate:Payments", *where, "--config", "max.attempts=3")
            start(f"member-{number}", "generation ", *words)
        exporter, page, prometheus = free_address(), free_address(), free_address()
        often = ("--every", "2")
        start("exporter", "metrics of groups at", "exporter", group, "--address", exporter, *often)
        start("web", "groups are shown at", "web", group, "--address", page)
        if shutil.which("prometheus"):
            config = json.dumps(scraping(*members, exporter))  # YAML takes JSON
            (folder / "prometheus.yaml").write_text(config)
            command = (
                "prometheus",
                f"--config.file={folder}/prometheus.yaml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={prometheus}",
            )
            log, up = folder / "prometheus.log", "Server is ready"
            stack.enter_context(program(log, up, failed, *command))
        stack.enter_context(paying(bootstrap, group))
        print(
            f"{MEMBERS} members share {PARTITIONS} partitions of {group}; now a key gets stuck",
            flush=True,
        )
        place, record = parked(f"http://{page}", group)
        print(
            f"{record['key']} is stuck: {place} is parked after {record['attempts']} attempts, "
            f"by {record['error']}. All other customers go on."
        )
        print(f"  the page         http://{page}/")
        print(f"  a member's own   http://{members[0]}/")
        print(f"  metrics          http://{exporter}/metrics and http://{members[0]}/metrics")
        if shutil.which("prometheus"):
            print(f"  alerts           http://{prometheus}/alerts")
        else:
            print("  alerts           need a Prometheus: apt-get install prometheus")
        print(f"  the terminal     coop-consumer status {group} --bootstrap {bootstrap}")
        for it in record["commands"]:
            print(f"  to {it['purpose']}:\n                   {it['command']}")
        print("Ctrl-C ends it all", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap")
    parser.add_argument("--topic", default="payments")
    for number in ASK_FOR_THE_END:
        signal.signal(number, end_once)
    unclean: list[str] = []
    with suppress(KeyboardInterrupt):
        main(parser.parse_args(), unclean)
    print("all have ended", flush=True)
    if unclean:
        raise SystemExit(f"not in order: {', '.join(unclean)}")
