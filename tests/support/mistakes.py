"""Mistakes of newcomers, each with its message, its exit code, and the way on: a table.

A message names what is wrong and where, and what to do or to type. A row has a command line as it
is typed, how it must end, and what must stand in the message. Its kind says how soon the message
must come: beyond the time in which a command starts, which is measured. A new mistake is a new row.
"""

from __future__ import annotations

from dataclasses import dataclass

from coop_consumer.errors import ExitCode

NOWHERE = "127.0.0.1:1"
SLOWER = 8
"""A busy machine takes so many times what a free one takes: others of the suite run beside this."""
WORDS_S, ASKS_S, SILENCE_S = 0.5, 1.5, 7.0
"""What it takes, at most, to find a mistake in words, settings and files; to be told by a broker;
and how long one that does not answer is waited for, or a name: a resolver may look 5 s for it.
"""
BILLING = """
from coop_consumer import Worker

NUMBER = 7

class Billing(Worker):
    def process(self, record):
        print(record.key, record.value)

class Idle(Worker):
    pass

class Needy(Worker):
    def __init__(self, url):
        self.url = url
    def process(self, record):
        pass
"""
FILES = {
    "billing.py": BILLING,
    "script.py": "import sys\nsys.exit('usage: script.py FILE')\n",
    "lacking.py": "import library_that_is_not_there\n",
    "unknown.properties": "bootstrap.severs=b:9092\n",
    "broken.properties": "group.id=billing\njust-words\n",
    "twice.properties": "max.attempts=3\nmax.attempts=4\n",
    "lines.txt": "customer-1:order 1\norder 2\n",
}


@dataclass(frozen=True)
class Mistake:
    """One mistake.

    Attributes:
        name: What was done wrong.
        words: The command line; {topic}, {group} and {port} are those of the test.
        code: How the command ends.
        says: What stands in its message: what is wrong and where, and last the way on.
        bootstrap: COOP_BOOTSTRAP; None: it is not set; "": the test's broker.
        asks: Only a broker can say it. Otherwise it must be told before any broker is asked.
    """

    name: str
    words: str
    code: ExitCode
    says: tuple[str, ...]
    bootstrap: str | None = ""
    asks: bool = False

    @property
    def is_process(self) -> bool:
        """Whether it is called as a process of its own, because it would stay."""
        return self.words.startswith("run ")

    @property
    def within_s(self) -> float:
        """How soon its message must come, without the start of a process."""
        waits_s = SILENCE_S if self.code is ExitCode.UNAVAILABLE else 0.0
        return waits_s + SLOWER * (ASKS_S if self.asks else WORDS_S)


USAGE, MISSING, CONFLICT = ExitCode.USAGE, ExitCode.MISSING, ExitCode.CONFLICT
RUN_ALONE = "run billing:Billing -t {topic} -g g"
RUN = "run billing:Billing --topics {topic} --group {group}"

MISTAKES = [
    # -- words
    Mistake("a typo in a command", "stauts billing", USAGE, ("'stauts'", "nearest is status")),
    Mistake("a typo in a subcommand", "topic crate orders", USAGE, ("'crate'", "create")),
    Mistake(
        "a typo in an option", "topic create orders --partition 3", USAGE,
        ("--partition", "--partitions"),
    ),
    Mistake("no group named", "status", USAGE, (
        "Missing argument 'GROUP'", "coop-consumer status billing\n",
    )),
    Mistake("no topic named", "read", USAGE, (
        "Missing argument 'TOPIC'", "coop-consumer read orders\n",
    )),
    Mistake("no place named", "reset {group}", USAGE, (
        "Missing option '--to'", "coop-consumer reset billing --to earliest\n",
    )),
    Mistake("a number that is none", RUN + " --workers many", USAGE, (
        "'--workers'", "many is no whole number of 1 or more", "as in --workers 64\n",
    )),
    Mistake("no worker at all", RUN + " --workers 0", USAGE, (
        "'--workers'", "0 is no whole number of 1 or more", "as in --workers 64\n",
    )),
    Mistake("a setting that is no number", RUN + " --config workers=many", USAGE, (
        "workers=many is not a whole number", "Choose 1 to 100000", "(--config workers)",
    )),
    Mistake("a port that is none", "broker start --port 70000", USAGE, (
        "'--port'", "70000 is no whole number from 1 to 65535", "as in --port 9092\n",
    )),
    Mistake(
        "workers beyond what a machine has", RUN + " --workers 100000000", ExitCode.THREADS,
        ("100,000,000 of ", "that this machine has", "run fewer workers"),
    ),
    # -- the broker
    Mistake(
        "no broker named", "status billing", USAGE,
        ("bootstrap.servers is missing", "--bootstrap host:port", "COOP_BOOTSTRAP",
         "\n    coop-consumer broker start\n"),
        bootstrap=None,
    ),
    Mistake(
        "a broker written with a blank", "status billing --bootstrap 'localhost 9092'", USAGE,
        ("bootstrap.servers=localhost 9092", "host:port", "(--bootstrap)"),
    ),
    Mistake(
        "a broker in the environment that is no address", "status billing", USAGE,
        ("bootstrap.servers=kafka:port", "(COOP_BOOTSTRAP)"),
        bootstrap="kafka:port",
    ),
    Mistake(
        "the broker has gone", "topic list", ExitCode.UNAVAILABLE,
        (f"bootstrap.servers={NOWHERE}: no broker answered", "Connection refused",
         "\n    coop-consumer broker start\n"),
        bootstrap=NOWHERE,
        asks=True,
    ),
    Mistake(
        "a host that does not exist", "topic list --bootstrap no-such-host.invalid:9092",
        ExitCode.UNAVAILABLE, (
            "no-such-host.invalid:9092", "no broker answered", "that host and port are right",
        ),
        asks=True,
    ),
    Mistake("no background broker", "broker status", MISSING, ("not running", "broker start")),
    Mistake(
        "a broker's name with a blank", "broker start --name 'my broker'", USAGE,
        ("my broker", "is not a name", "Take up to 64 letters, digits"),
    ),
    Mistake(
        "a port in use", "broker start --port {port}", USAGE,
        ("port {port} on 127.0.0.1", "is taken", "Name another one, or none"),
    ),
    # -- groups, provisioned and cleared
    Mistake(
        "a length of time without a unit", "gc --older-than 30", USAGE,
        ("--older-than", "30 is no length of time", "as in 30d"),
    ),
    Mistake(
        "no topic to provide for", "init --group {group}", USAGE,
        ("--topics is missing", "Name it: --topics orders"),
    ),
    Mistake(
        "a principal without its kind", "init --group {group} --topics {topic} --principal ann",
        USAGE, ("--principal=ann names nobody", "User:ann"),
    ),
    Mistake(
        "a topic to provide for that does not exist", "init --group {group} --topics {topic}x",
        MISSING, ("topic {topic}x", "does not exist", "nearest", "topic create {topic}x"),
        asks=True,
    ),
    # -- settings
    Mistake(
        "a typo in a setting", "status {group} --config commit.intervall.ms=5", USAGE,
        ("commit.intervall.ms", "commit.interval.ms", "(--config commit.intervall.ms)"),
    ),
    Mistake(
        "a value out of bounds", "status {group} --config max.attempts=0", USAGE,
        ("max.attempts=0", "Choose 1 or more", "(--config max.attempts)"),
    ),
    Mistake(
        "a page for all networks that asks for no secret", "web {group} --address 0.0.0.0:0", USAGE,
        ("--address=0.0.0.0:0", "nothing says who may", "Give --token-file FILE"),
    ),
    Mistake(
        "a secret that is not there", "web {group} --token-file nowhere", USAGE,
        ("--token-file=nowhere cannot be read", "secrets.token_urlsafe"),
    ),
    Mistake(
        "actions without a page", RUN + " --allow-actions", USAGE,
        ("ops.allow.actions is set and ops.address is not", "(--allow-actions)",
         "Set ops.address (--ops), too"),
    ),
    Mistake(
        "a setting without a value", "status {group} --config max.attempts", USAGE,
        ("--config needs name=value", "Write, say, commit.interval.ms=250"),
    ),
    Mistake(
        "a setting that is not for people", "status {group} --config enable.auto.commit=true",
        USAGE, ("enable.auto.commit=true",
         "Leave it out, or set it to false (--config enable.auto.commit)"),
    ),
    Mistake(
        "two settings that contradict each other",
        "status {group} --config split=always --config ordering=partition", USAGE,
        ("split=always contradicts ordering=partition",
         "Use split=auto, or ordering=key (--config split)"),
    ),
    Mistake(
        "a file of settings that is not there", "status {group} --config-file app.properties",
        USAGE, ("app.properties", "cannot be read", "Name a UTF-8 .properties file"),
    ),
    Mistake(
        "a typo in a file of settings", "status {group} --config-file unknown.properties", USAGE,
        ("bootstrap.severs", "bootstrap.servers", "(--config-file unknown.properties)"),
    ),
    Mistake(
        "a line in a file that is no setting", "status {group} --config-file broken.properties",
        USAGE, ("broken.properties:2", "Write name=value"),
    ),
    Mistake(
        "a setting twice in a file", "status {group} --config-file twice.properties",
        USAGE, ("twice.properties:2", "max.attempts", "Keep one"),
    ),
    # -- the worker
    Mistake(
        "a module without its class", "run billing -t {topic} -g {group}", USAGE,
        ("worker billing", "not of the form module:Class", "Name it as module:Class"),
    ),
    Mistake(
        "a typo in the module", "run biling:Billing -t {topic} -g {group}", USAGE,
        ("worker biling:Billing", "no module biling in",
         "the module has to lie in the current directory, or in PYTHONPATH"),
    ),
    Mistake(
        "a typo in the class", "run billing:Biling -t {topic} -g {group}", USAGE,
        ("worker billing:Biling", "has no Biling; it has Billing", "Name it as module:Class"),
    ),
    Mistake(
        "a class that is no worker", "run billing:NUMBER -t {topic} -g {group}", USAGE,
        ("worker billing:NUMBER", "does not derive from coop_consumer.Worker",
         "Define it as a subclass: class Billing(Worker)"),
    ),
    Mistake(
        "a worker without a handler", "run billing:Idle -t {topic} -g {group}", USAGE,
        ("worker billing:Idle", "it has no process(self, record)",
         "Define process(self, record) or process_batch(self, records)"),
    ),
    Mistake(
        "a worker that wants arguments", "run billing:Needy -t {topic} -g {group}", USAGE,
        ("Needy() raised TypeError", "Correct Needy.__init__"),
    ),
    Mistake(
        "a script instead of a module", "run script:Worker -t {topic} -g {group}", USAGE,
        ("module script raised SystemExit", "__main__"),
    ),
    Mistake(
        "a module that lacks a library", "run lacking:Worker -t {topic} -g {group}", USAGE,
        ("imports library_that_is_not_there, which is not installed", "Install library"),
    ),
    Mistake(
        "no group to run in", "run billing:Billing -t {topic}", USAGE,
        ("group.id is missing", "Set group.id to a name that all members of the job use (--group)"),
    ),
    Mistake(
        "no topics to run on", "run billing:Billing -g {group}", USAGE,
        ("topics is missing: there is nothing to consume", "Set topics in the configuration",
         "(--topics)"),
    ),
    Mistake(
        "a topic's name with a blank", "run billing:Billing -t 'my orders' -g {group}", USAGE,
        ("my orders", "Choose topic names between commas", "(--topics)"),
    ),
    Mistake(
        "a topic to read with a blank in its name", "read 'my orders'", USAGE,
        ("my orders is no topic's name", "a-z A-Z 0-9", "as in orders"),
    ),
    # -- topics
    Mistake(
        "a typo in the topic to run on", "run billing:Billing -t {topic}s -g {group}", MISSING,
        ("topic {topic}s: does not exist", "nearest name is {topic}.",
         "\n    coop-consumer topic create {topic}s\n"),
        asks=True,
    ),
    Mistake(
        "a typo in the topic to send to", "send {topic}s --value a", MISSING,
        ("topic {topic}s: does not exist", "Nothing is written", "nearest name is {topic}.",
         "\n    coop-consumer topic create {topic}s\n"),
        asks=True,
    ),
    Mistake(
        "a typo in the topic to read", "read {topic}s --bootstrap {bootstrap}", MISSING,
        ("topic {topic}s: does not exist", "nearest name is {topic}.",
         "\n    coop-consumer topic create {topic}s --bootstrap {bootstrap}\n"),
        asks=True,
    ),
    Mistake(
        "a topic to describe that does not exist", "topic describe no-such-topic", MISSING,
        ("topic no-such-topic: does not exist", "coop-consumer topic create no-such-topic"),
        asks=True,
    ),
    Mistake(
        "a setting of a topic by the option for clients",
        "topic create {topic}s --config retention.ms=5", USAGE,
        ("retention.ms", "is given by --topic-config NAME=VALUE"),
    ),
    Mistake(
        "more copies than brokers", "topic create {topic}s --replication 9", USAGE,
        ("topic {topic}s: was not made", "--replication"),
        asks=True,
    ),
    Mistake(
        "a topic that exists otherwise", "topic create {topic} --partitions 7", CONFLICT,
        ("topic {topic}: exists, with 2 partitions, not 7", "another name",
         "\n    coop-consumer topic describe {topic}\n"),
        asks=True,
    ),
    Mistake(
        "a partition that does not exist", "send {topic} --value a --partition 2", MISSING,
        ("{topic}-2: does not exist, the topic has 0 to 1",
         "\n    coop-consumer topic describe {topic}\n"),
        asks=True,
    ),
    Mistake("nothing to send", "send {topic}", USAGE, ("--value TEXT", "--lines FILE")),
    Mistake(
        "a file of lines that is not there", "send {topic} --lines nothing.txt", USAGE,
        ("--lines", "nothing.txt", "name a file that can be read, or - for the standard input"),
    ),
    Mistake(
        "a line without a key", "send {topic} --lines lines.txt --separator :", USAGE,
        ("not in line 2", "1 record in {topic}\n", "Correct that line, and send it"),
        asks=True,
    ),
    Mistake(
        "a time that is none", "read {topic} --from yesterday", USAGE,
        ("--from=yesterday", "Give earliest, latest"),
    ),
    # -- groups
    Mistake(
        "a group that does not exist", "status {group}-other", MISSING,
        ("group {group}-other: does not exist", "Correct its name", "nearest name is {group}.",
         "\n    coop-consumer groups\n"),
        asks=True,
    ),
    Mistake(
        # Eight hexadecimal digits end the topic's name: they may look like a number.
        "a partition without its number", "retry {group} {topic}x 5", USAGE,
        ("names no partition", "topic-number"),
    ),
    Mistake(
        "a record that is not parked", "retry {group} {topic}-0 0", CONFLICT,
        ("{topic}-0 offset 0", "is done already", "coop-consumer status"),
        asks=True,
    ),
    Mistake(
        "a reset behind the end", "reset {group} --to 99", USAGE,
        ("--to=99 lies outside {topic}-0", "Give an offset inside"),
        asks=True,
    ),
    Mistake(
        "a policy that is neither true nor false",
        "policy set accept.range.fetch=maybe --topic {topic}", USAGE,
        ("accept.range.fetch=maybe", "true or false"),
    ),
    Mistake(
        "a policy of nothing", "policy set accept.range.fetch=false", USAGE,
        ("--topic, --group", "Give either --topic or --group"),
    ),
]  # fmt: skip


ACLS = "--add --allow-principal User:ann --operation "
SECURED = [
    Mistake(
        "a wrong password", "topic list --config-file wrong.properties", ExitCode.UNAUTHORIZED,
        ("refused to authenticate user ann", "Correct the login", "sasl.password"),
        asks=True,
    ),
    Mistake(
        "no login at a broker that wants one", "topic list --bootstrap {bootstrap}",
        ExitCode.UNAVAILABLE, (
            "{bootstrap}: no broker answered", "security.protocol is the listener's",
        ),
        asks=True,
    ),
    Mistake(
        "no right to see the topic",
        RUN_ALONE + " --config-file ann.properties", ExitCode.UNAUTHORIZED,
        ("topic {topic}: user ann may not read", "Grant read on topic {topic}",
         ACLS + "Read --topic {topic}"),
        asks=True,
    ),
    Mistake(
        "no right to read", "read {topic} --config-file ann.properties", ExitCode.UNAUTHORIZED,
        ("topic {topic}: user ann may not read", "Grant read on topic {topic}",
         ACLS + "Read --topic {topic}"),
        asks=True,
    ),
    Mistake(
        "no right to write", "send {topic} --value a --config-file ann.properties",
        ExitCode.UNAUTHORIZED,
        ("topic {topic}: user ann may not write", "Grant write on topic {topic}",
         ACLS + "Write --topic {topic}"),
        asks=True,
    ),
]  # fmt: skip
