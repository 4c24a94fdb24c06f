r"""Text of strangers as a page shows it: keys, errors, names. Pure.

In: bytes and text of any origin. Out: text that shows as it is. Control characters, and those that
turn the direction of writing, become escapes. Templates escape what HTML would obey.
"""

from __future__ import annotations

from coop_consumer.plain_text import printable, shortened

_KEY_CHARS_MAX = 60
_ERROR_CHARS_MAX = 600


def key_shown(key: bytes | None) -> str:
    r"""A record's key: text if it is UTF-8, else its bytes as hex; short, and never like no key.

    >>> key_shown(b"N14228"), key_shown(b"\xff\x00"), key_shown(b""), key_shown(None)
    ('N14228', '0xff00', '""', 'no key')
    """
    if key is None:
        return "no key"
    try:
        text = printable(key.decode())
    except UnicodeDecodeError:
        text = f"0x{key.hex()}"
    return shortened(text, _KEY_CHARS_MAX) if text else '""'


def error_shown(text: str) -> str:
    """An error: as long as a page has room for."""
    return shortened(printable(text, kept="\n"), _ERROR_CHARS_MAX)


def name_shown(text: str) -> str:
    """The name of a group, a member or a host."""
    return printable(text)


def stack_shown(stack: str) -> str:
    r"""A handler's stack, without our calls that led to it; if it has no other, all of it.

    >>> ours = '  File "/x/coop_consumer/executors/threads.py", line 3, in _run\n    run(it)\n'
    >>> theirs = '  File "/app/billing.py", line 9, in process\n    charge()\n'
    >>> print(stack_shown("  In worker process 7:\n" + ours + theirs), end="")
      In worker process 7:
      File "/app/billing.py", line 9, in process
        charge()
    """
    head, *rest = stack.split("  File ")
    frames = [f"  File {it}" for it in rest]
    own = [number for number, it in enumerate(frames) if "/coop_consumer/" in it.partition(",")[0]]
    theirs = frames[own[-1] + 1 :] if own else frames
    return printable(head + "".join(theirs or frames), kept="\n")
