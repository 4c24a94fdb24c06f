"""An archive of the classes that a broker loads: from it, brokers of tests start in less time.

In: the embedded broker's jars and Java. Out: options for its JVM. The archive lies beside the jars.
It is made once a machine, by a broker that ends in order. Java uses an archive only if it was made
by the same Java of the same jars, and otherwise goes without.
"""

from __future__ import annotations

import fcntl
import os
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Producer

from coop_consumer.broker import EmbeddedBroker, ensure_jars, find_java
from coop_consumer.broker.broker import JVM_OPTIONS
from coop_consumer.broker.pinned import pinned_jars

ANSWER_S = 30.0


@cache
def jvm_options() -> tuple[str, ...]:
    """Options of a node's Java, with the archive; 0.2 s, and 8 s for the first time on a machine.

    Without an archive where Java cannot make one (that of the `broker` extra has no base for it),
    or where the folder of the jars is not ours.
    """
    jars = ensure_jars()
    java = find_java().executable.resolve()
    made_of = f"{java} {java.stat().st_mtime_ns} {pinned_jars()}"
    archive = jars / f"classes-{sha256(made_of.encode()).hexdigest()[:16]}.jsa"
    if not archive.exists():
        if not os.access(jars, os.W_OK):
            return JVM_OPTIONS
        with archive.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not archive.exists():  # another process may have made it while we waited
                make(archive)
    own = [f"-XX:SharedArchiveFile={archive}"] if archive.stat().st_size else []
    return (*JVM_OPTIONS, *own)


def make(archive: Path) -> None:
    """Let a broker do what tests ask of one, and note what it has loaded; empty: it could not."""
    with TemporaryDirectory(dir=archive.parent) as folder:
        fresh = Path(folder, archive.name)
        options = (*JVM_OPTIONS, f"-XX:ArchiveClassesAtExit={fresh}")
        with EmbeddedBroker(data_dir=Path(folder, "data"), jvm_options=options) as broker:
            producer = Producer({**broker.client_config(), "transactional.id": "archive"})
            producer.init_transactions(ANSWER_S)
        fresh.touch()
        os.replace(fresh, archive)
