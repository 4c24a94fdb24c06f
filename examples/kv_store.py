"""A key-value store: shards are partitions, and each has a leader among several processes.

    coop-consumer broker start
    python examples/kv_store.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes; the log of the store
--seconds N             how long clients read and write; 8 by default
--kills N               how often a server is killed meanwhile; 2 by default
--everyone              every server takes itself for the leader of every shard
--stale                 reads ask only the server's own state: old values may come
--history FILE          where all calls of clients go, one JSON list a line

A write is in the log before it is answered, and a read asks the log whether it has seen everything.
So clients see one store, however many servers believe that they lead. The group protocol of
`CooperativeConsumer` says who leads a shard. That keeps conflicts rare, and nothing rests on it.
"""

import argparse
import json
import multiprocessing
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from zlib import crc32

from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import (
    CoopConsumerError,
    CooperativeConsumer,
    KeyRange,
    RangeListener,
    TopicPartition,
)
from coop_consumer.logs import Applied, CommitLog, NewRecord, VisibleRecord

SHARDS, SERVERS, CLIENTS, KEYS = 4, 3, 4, 6  # each shard has a key
SPAWN = multiprocessing.get_context("spawn")
Options = argparse.Namespace


def shard_of(key: str) -> int:
    """The partition of a key."""
    return crc32(key.encode()) % SHARDS


class Table:
    """The state of a shard: what its records make of it, and nothing else."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def apply(self, records: Sequence[VisibleRecord]) -> Sequence[object]:
        """A result a record: whether it was written."""
        return [self.written(*json.loads(it.value or b"")) for it in records]

    def written(self, key: str, value: str, expected: list[str | None]) -> bool:
        """Write a value, if there is an expected one only where the key has it."""
        if expected and self.values.get(key) != expected[0]:
            return False
        self.values[key] = value
        return True

    def snapshot(self) -> Iterable[bytes]:
        """All of the state."""
        yield json.dumps(self.values).encode()

    def restore(self, parts: Iterable[bytes]) -> None:
        """Begin with a snapshot."""
        self.values = json.loads(b"".join(parts))


class Server(RangeListener):
    """One process: leads some shards, and answers clients about them."""

    def __init__(self, options: Options, name: str, leading: Any) -> None:
        self.options, self.name, self.leading = options, name, leading
        self.shards: dict[int, tuple[CommitLog, Table]] = {}

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Lead a shard: its log is read to the end before the first answer."""
        del ranges  # always all of the partition
        table = Table()
        config = {"bootstrap.servers": self.options.bootstrap}
        log = CommitLog.open(config, self.options.topic, tp.partition, self.name, table)
        self.shards[tp.partition] = log, table
        print(f"{self.name} leads shard {tp.partition}", flush=True)
        self.leading.set()

    def on_ranges_revoked(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Lead it no more. A snapshot lets the next leader begin sooner."""
        del ranges
        log, _ = self.shards.pop(tp.partition)
        with log, suppress(CoopConsumerError):  # such as: the next leader writes one already
            log.snapshot()

    def answer(self, call: str, key: str, *given: Any) -> tuple[str, Any]:
        """Do what a client asks."""
        led = self.shards.get(shard_of(key))  # once: it may be revoked meanwhile
        if led is None:
            return "elsewhere", None
        log, table = led
        if call == "get":
            ask = log.peek if self.options.stale else log.read
            return "done", ask(lambda: table.values.get(key))
        value, *expected = given
        record = NewRecord(key.encode(), json.dumps([key, value, expected]).encode())
        end = log.append([record])
        return ("done", end.results[0]) if isinstance(end, Applied) else ("conflict", None)

    def serve(self, client: Connection) -> None:
        """Answer a client until it goes."""
        with suppress(EOFError, OSError):  # the client has gone
            while asked := client.recv():
                try:
                    client.send(self.answer(*asked))
                except CoopConsumerError:
                    client.send(("unknown", None))  # a write may be in the log, or not


def run_server(options: Options, name: str, address: Any, leading: Any) -> None:
    """A server in a process of its own; says where it is, and when it leads a shard."""
    server, listener = Server(options, name, leading), Listener(("127.0.0.1", 0))
    if options.everyone:
        for number in range(SHARDS):
            server.on_ranges_assigned(TopicPartition(options.topic, number), ())

    def accept() -> None:
        while True:
            threading.Thread(target=server.serve, args=(listener.accept(),), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    address.put((name, listener.address))
    config = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.topic,
        "group.instance.id": name,  # its next process takes its place at once
        "ordering": "partition",  # a shard has one leader
    }
    with CooperativeConsumer(config) as consumer:
        if options.everyone:
            threading.Event().wait()
        consumer.subscribe([f"{options.topic}-leaders"], server)  # as many partitions, no records
        while True:
            consumer.poll(0.1)


class Clients:
    """Threads that read and write, and note what they have asked for and got."""

    def __init__(self) -> None:
        self.addresses: dict[str, Any] = {}
        self.history: list[list[Any]] = []
        self.told: Counter[str] = Counter()
        self.ending = threading.Event()

    def run(self, number: int) -> None:
        """One client."""
        chance = random.Random()  # noqa: S311 - any order of calls will do
        seen, connections = dict[str, Any](), dict[Any, Connection]()
        while not self.ending.is_set():
            key = f"key-{chance.randrange(KEYS)}"
            value = f"{number}.{len(self.history)}"
            call = chance.choice([("get",), ("put", value), ("cas", value, seen.get(key))])
            asked = ("get", key) if call[0] == "get" else ("set", key, *call[1:])
            began = time.monotonic_ns()
            end, result = self.ask(chance, connections, asked)
            self.told[end] += 1
            if end in ("elsewhere", "conflict"):
                continue  # it has changed nothing
            ended = None if end == "unknown" else time.monotonic_ns()
            self.history.append([number, key, *call, result, began, ended])
            if call[0] == "get" and ended:
                seen[key] = result

    def ask(
        self, chance: random.Random, connections: dict[Any, Connection], asked: tuple[Any, ...]
    ) -> tuple[str, Any]:
        """Ask any server; without its answer nobody knows whether it was done."""
        address = chance.choice(list(self.addresses.values()))
        try:
            if address not in connections:
                connections[address] = Client(address)
        except OSError:
            return "elsewhere", None
        try:
            connections[address].send(asked)
            found: tuple[str, Any] = connections[address].recv()
        except (EOFError, OSError):
            del connections[address]
            return "unknown", None
        return found


def started(options: Options, name: str, addresses: dict[str, Any], wait_s: float) -> BaseProcess:
    """Start a server, wait for its address, and for so long until it leads a shard."""
    queue, leading = SPAWN.Queue(), SPAWN.Event()
    process = SPAWN.Process(target=run_server, args=(options, name, queue, leading), daemon=True)
    process.start()
    addresses.update([queue.get()])
    leading.wait(wait_s)
    return process


def main(options: Options) -> None:
    """Run the servers and the clients, and kill some of them."""
    admin = AdminClient({"bootstrap.servers": options.bootstrap})
    kept = {"retention.ms": "-1"}  # the log is the store
    topics = [
        NewTopic(options.topic, SHARDS, 1, config=kept),
        NewTopic(f"{options.topic}-leaders", SHARDS, 1),
    ]
    for name, made in admin.create_topics(topics).items():
        if refused := made.exception():
            raise SystemExit(f"{name}: {refused.args[0].str()} Is a broker up? A new --topic?")
    clients, names = Clients(), [f"server-{number}" for number in range(SERVERS)]
    servers = {name: started(options, name, clients.addresses, 0) for name in names}
    threads = [threading.Thread(target=clients.run, args=(n,)) for n in range(CLIENTS)]
    for it in threads:
        it.start()
    for number in range(options.kills):
        time.sleep(options.seconds / (options.kills + 1))
        name = random.choice(names)  # noqa: S311 - anyone
        servers[name].kill()
        print(f"kill -9 of {name} after {sum(clients.told.values())} calls", flush=True)
        servers[name] = started(options, name, clients.addresses, 0)
        if number == 0:  # one more, which takes over a shard from a leader that lives
            servers["extra"] = started(options, "extra", clients.addresses, 30)
    time.sleep(options.seconds / (options.kills + 1))
    clients.ending.set()
    for process in servers.values():
        process.kill()
    for it in threads:
        it.join()
    told = ", ".join(f"{count} {end}" for end, count in sorted(clients.told.items()))
    print(f"{sum(clients.told.values())} calls: {told}")
    if options.history:
        options.history.write_text("".join(json.dumps(it) + "\n" for it in clients.history))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="kv-store")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--everyone", action="store_true")
    parser.add_argument("--stale", action="store_true")
    parser.add_argument("--history", type=Path)
    main(parser.parse_args())
