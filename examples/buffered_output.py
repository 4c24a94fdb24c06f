"""Buffered output: rows are written in batches, one transaction a commit, and none is lost.

    coop-consumer broker start
    python examples/buffered_output.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes and fills; also the group's name

`process` only buffers a row; `flush` makes the buffered rows durable. Progress is committed, and
ranges move to other members, only after a flush. After a crash the rows since the last commit come
again. So the place of the record is the primary key of its row: written twice, a row exists once.
"""

import argparse
import sqlite3
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import Record, Worker, WorkerPool

ORDERS, CUSTOMERS = 20_000, 500
TABLE = "CREATE TABLE orders (place TEXT PRIMARY KEY, customer BLOB, text BLOB)"


class Archive(Worker):
    """Writes orders into a database."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path, check_same_thread=False)
        self.database.execute(TABLE)
        self.lock = threading.Lock()
        self.rows: list[tuple[str, bytes | None, bytes | None]] = []
        self.batches = 0

    def process(self, record: Record) -> None:
        """Called by 16 threads; all buffer their rows in one list."""
        with self.lock:
            self.rows.append((f"{record.partition}@{record.offset}", record.key, record.value))

    def flush(self) -> None:
        """Called before each commit, by one thread at a time; other threads process meanwhile.

        An error would end the member, and its rows would come again at another member.
        """
        with self.lock:
            rows, self.rows = self.rows, []
        with self.database:
            self.database.executemany("INSERT OR IGNORE INTO orders VALUES (?, ?, ?)", rows)
        self.batches += bool(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="archive")
    options = parser.parse_args()
    new = NewTopic(options.topic, num_partitions=1, replication_factor=1)
    client = {"bootstrap.servers": options.bootstrap}
    admin = AdminClient(client)
    if refused := admin.create_topics([new])[options.topic].exception():
        raise SystemExit(f"{options.topic}: {refused.args[0].str()} Is a broker up? A new --topic?")
    producer = Producer(client)
    for number in range(ORDERS):
        producer.produce(options.topic, b"order %d" % number, b"customer %d" % (number % CUSTOMERS))
    producer.flush()

    with TemporaryDirectory() as folder:
        archive = Archive(Path(folder) / "orders.db")
        config = {**client, "group.id": options.topic}
        with WorkerPool(archive, config, [options.topic], workers=16, until_caught_up=True) as pool:
            pool.wait()
        [(count,)] = archive.database.execute("SELECT count(*) FROM orders")
        archive.database.close()
    print(f"{count:,} of {ORDERS:,} orders are in the database, in {archive.batches} transactions")
