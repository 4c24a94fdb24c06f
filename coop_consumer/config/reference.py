"""docs/configuration.md, made from the table, so that the two cannot differ.

Room: `coop_consumer.config`; writes to standard output when run. In: the table and the lists of
names. Out: Markdown. `python -m coop_consumer.config.reference > docs/configuration.md` renews the
page, and a test fails while it is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from coop_consumer.config.librdkafka import (
    ALIASES,
    BOUNDS,
    CONSUMER,
    DECIDED,
    LIBRDKAFKA_ALONE,
    PRODUCER,
    REFUSED,
    REFUSED_PREFIXES,
    SHARED,
    WATCHED,
    Refused,
)
from coop_consumer.config.security import MECHANISMS, PROTOCOLS, TOKENS
from coop_consumer.config.setting import Section, Setting
from coop_consumer.config.settings import SETTINGS

INTRODUCTION = """\
# Configuration

<!-- Made by `python -m coop_consumer.config.reference`; change the table there, not this page. -->

A member takes one dict of dotted names, as confluent-kafka does. This library's names and
librdkafka's stand side by side; each client inside gets its part.

```python
from coop_consumer.config import Config

config = Config.from_dict({
    "bootstrap.servers": "localhost:9092",
    "group.id": "billing",
    "ordering": "key",              # ours
    "fetch.wait.max.ms": 200,       # librdkafka's: passed to the data plane
})
```

- Numbers and booleans may be text (`"250"`, `"true"`), so command lines and files need no types.
- `Config` checks everything when it is made, without a broker. An unknown name, a value out of
  bounds, or two settings that contradict each other raise a `ConfigError`. The error says which,
  why, and what to do. librdkafka judges the values of passed names when the member is made. A
  refused value is a `ConfigError`, too, and comes before any request to a broker.
- `Config` is frozen and pickles. `dataclasses.replace(config, commit_interval_ms=50)` makes a
  changed one, and checks it. The field of `commit.interval.ms` is `commit_interval_ms`.
- Passwords never appear in its `repr` or in an error.
- On the command line: `--config name=value`, as often as needed, and `--config-file path` for a
  `.properties` file, the format of Kafka's own tools: `name=value` a line, `#` for comments, a
  backslash at a line end continues in the next line. A literal backslash is written `\\\\`.
  A command without `--config-file` reads the file that `COOP_CONFIG_FILE` names.
- The first of these counts: code or `--config`, then `--config-file`, then `COOP_CONFIG_FILE`.
- For editors and type checkers `coop_consumer.Settings` lists all names:
  `config: Settings = {"on.failure": "park"}`.

## Secrets from the environment and from files

Any value of a setting may have placeholders, in a dict, in a file and on the command line. Topics
that are given to a command as an argument, or by `--topics`, are taken as they are:

```properties
sasl.username=billing-${env:STAGE}
sasl.password=${file:/run/secrets/kafka-password}
ssl.key.password=${file:${env:CREDENTIALS_DIRECTORY}/key-password}
```

- `${env:NAME}` is what the environment variable holds, `${file:PATH}` what the file holds, without
  the line end at its end. A relative path begins at the current directory.
- They are looked up once, when the `Config` is made. What they hold is never looked through again.
  A missing variable or file is a `ConfigError`, before anything starts.
- `$${` stands for `${` itself. Any other `${` is an error, as it is most likely a mistake.
- Numbers, and other values that are no text, have no placeholders. Texts in a list may have some.
- A value that came from a placeholder is a secret: `***` stands for it in the `repr` of a `Config`
  and in errors about settings, and no command that is suggested has it. Lines of the log still say
  of which group, topic, broker or user they tell, wherever these names came from.
- Spark's tasks look them up where they run (`launch_workers`). Planned jobs and Spark's format look
  them up on the driver.
"""

CLIENTS = """\
## What each client gets

| client | method | fixed | default, unless set | passed names |
|---|---|---|---|---|
| fetcher (confluent Consumer) | `data_plane()` | `group.id`, `enable.auto.commit=false`, \
`enable.auto.offset.store=false`, `enable.partition.eof=true`, `auto.offset.reset=error`, \
`isolation.level` | `fetch.queue.backoff.ms=1`, `fetch.wait.max.ms=100`, \
`queued.max.messages.kbytes=16384`, `fetch.max.bytes` as the prefetch | shared, consumer |
| reader of the progress topic (confluent Consumer) | `progress_reader()` | the same, but \
`isolation.level` as the reader needs it | `fetch.wait.max.ms=50` | shared |
| producer of progress and dead letters (confluent Producer) | `producer()` | \
`enable.idempotence=true`, `acks=all` | `linger.ms=1`; in a transaction \
`transaction.timeout.ms=10000` | shared, producer |
| producer of keyed state (confluent Producer) | | the same | the same, but `linger.ms=10` \
| shared, producer |
| administration (confluent AdminClient) | `admin()` | | | shared |
| group membership (kafka-python) | `membership()` | `enable_auto_commit=False`, \
`allow_auto_create_topics=False` | | security, reconnect and retry back-off |

All have `client.id`, `bootstrap.servers`, and `reconnect.backoff.max.ms=1000` unless set, so that
they are back within a second of a restarted broker.
"""

SECURITY = f"""\
## Security

One configuration serves both clients. `security.protocol` is one of {", ".join(PROTOCOLS)};
`sasl.mechanism` one of {", ".join(MECHANISMS)}.

| librdkafka's name | for the group membership |
|---|---|
| `security.protocol` | `security_protocol`, in upper case |
| `ssl.ca.location` (a file or a directory) | the trust store of an `ssl.SSLContext`; without it, \
the system's |
| `ssl.certificate.location`, `ssl.key.location`, `ssl.key.password` | its certificate chain; both \
files or none |
| `ssl.crl.location` | its revocation list |
| `ssl.cipher.suites` | its ciphers |
| `ssl.endpoint.identification.algorithm` (https, none) | its check of the host name |
| `enable.ssl.certificate.verification` | its check of the certificate; false is for trials only |
| `sasl.mechanism`, `sasl.mechanisms` | `sasl_mechanism` |
| `sasl.username`, `sasl.password` | `sasl_plain_username`, `sasl_plain_password`, for SCRAM too |
| `sasl.kerberos.service.name` | `sasl_kerberos_service_name` |

A setting that works in only one of the clients is refused (below). So is a setting without
effect, such as `sasl.password` under `security.protocol=PLAINTEXT`. GSSAPI logs in from the ticket
cache, which `kinit` or `k5start` keeps fresh. GSSAPI needs the package `gssapi` and a librdkafka
with GSSAPI.

### Login by tokens

With `sasl.mechanism={TOKENS}` a function of yours gives the tokens:
`oauth.token.provider=module:callable`. [security.md](security.md#login-by-tokens) has an example.

Spark's sinks, and its source without `group.id`, have librdkafka as their only client. They also \
take `sasl.mechanism={TOKENS}` (with `sasl.oauthbearer.method=oidc`), and these names: \
{", ".join(f"`{name}`" for name in sorted(LIBRDKAFKA_ALONE))}.
"""


def markdown() -> str:
    """The whole page. O(settings)."""
    parts = [
        INTRODUCTION,
        "## Settings of this library\n",
        *(_section(section) for section in Section),
        CLIENTS,
        SECURITY,
        _librdkafka(),
    ]
    return "\n".join(parts)


def _section(section: Section) -> str:
    rows = [_row(setting) for setting in SETTINGS.values() if setting.section is section]
    header = ("name", "type", "default", "allowed", "meaning", "why so")
    return f"### {section.value}\n\n{_table(header, rows)}"


def _row(setting: Setting) -> Sequence[str]:
    about = setting.about
    kind = setting.kind.__name__ if setting.kind in {int, bool} else "text"
    code = "" if setting.required or setting.default is None else "`"
    default = f"{code}{setting.default_words}{code}"
    return (f"`{setting.name}`", kind, default, setting.bounds, about.meaning, about.why)


def _librdkafka() -> str:
    aliases = _table(
        ("other name", "same as"), [(f"`{a}`", f"`{name}`") for a, name in sorted(ALIASES.items())]
    )
    decided = _table(
        ("name", "always", "because"),
        [(f"`{name}`", f"`{d.values[0]}`", d.why) for name, d in sorted(DECIDED.items())],
    )
    bounded = _table(
        ("name", "allowed", "because"),
        [(f"`{name}`", bound.words, bound.why) for name, bound in sorted(BOUNDS.items())],
    )
    refused = _table(("name", "because", "instead"), _refusals())
    return (
        "## librdkafka's names\n\n"
        f"Passed to every client (shared): {_listed(SHARED)}.\n\n"
        f"Passed to the fetcher (consumer): {_listed(CONSUMER)}.\n\n"
        f"Passed to the producer: {_listed(PRODUCER)}.\n\n"
        "Passed to the clients whose figures a member shows ([metrics.md](metrics.md)): "
        f"{_listed(WATCHED)}.\n\n"
        f"{aliases}\nNarrower than librdkafka has it:\n\n{bounded}\n"
        f"Decided here; giving the same value changes nothing:\n\n{decided}\n"
        f"Refused:\n\n{refused}"
    )


def _refusals() -> list[Sequence[str]]:
    """One row a reason, with all its names."""
    names: dict[Refused, list[str]] = {}
    families = {f"{prefix}*": refused for prefix, refused in REFUSED_PREFIXES.items()}
    for name, refused in (REFUSED | families).items():
        names.setdefault(refused, []).append(name)
    return [(_listed(group), refused.why, refused.remedy) for refused, group in names.items()]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines
    )


if __name__ == "__main__":
    sys.stdout.write(markdown())
