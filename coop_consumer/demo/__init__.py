"""The demo: `coop-consumer demo` follows every aircraft of 336,776 real flights, in three ways.

In: options. Out: figures measured in this run, and whether the result is right. It starts an
embedded broker and member processes, and ends both. It uses the library as any user would.

    flights   the data, in time order          aircraft   the computation, pure
    worker    `FlightWorker`: read this one    rivals     a plain group, lanes written by hand
    member    one child process                crew       several of them, always ended
    report    their messages to the parent     pace       how fast they are
    kafka     topics and committed offsets     status     the picture of the group
    topics    names                            check      is the result right?
    run       the whole demo, in order

`python -m coop_consumer.demo.skew` shows what skewed keys cost, and what is done about it.

    skew      flights by destination and by carrier  skew_round  two groups on one of these
    makespan  how long a heap takes at least

Names load when first used: a child process needs no terminal library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.lazy_names import lazily

if TYPE_CHECKING:
    from coop_consumer.demo.run import DemoOptions, DemoResult, run_demo

__all__ = ["DemoOptions", "DemoResult", "run_demo"]

__getattr__ = lazily(__name__, dict.fromkeys(__all__, ".run"))
