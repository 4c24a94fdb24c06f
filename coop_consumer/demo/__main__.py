"""`python -m coop_consumer.demo`: the demo without the command line's extra comforts.

In: options (`--help` lists them). Out: progress and figures on the terminal; with `--json`, one
line of JSON on standard output and everything else on standard error. Exit code 0 if the result is
right.
"""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console

from coop_consumer.demo.run import DemoOptions, run_demo
from coop_consumer.errors import CoopConsumerError, ExitCode, exit_code_of


def main() -> int:
    """Parse, run, print. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m coop_consumer.demo")
    parser.add_argument("--latency", type=float, default=1.0, metavar="MS")
    parser.add_argument("--records", type=int, metavar="N", help="only the first N flights")
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--workers", type=int, default=16, help="of each member")
    parser.add_argument("--slice", type=float, default=10.0, metavar="S", help="of each rival")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave the broker running")
    parser.add_argument("--bootstrap", help="use this broker instead of starting one")
    arguments = parser.parse_args()
    try:
        options = DemoOptions(
            latency_ms=arguments.latency,
            records=arguments.records,
            members=arguments.members,
            workers=arguments.workers,
            slice_s=arguments.slice,
            keep=arguments.keep,
            bootstrap=arguments.bootstrap,
        )
        result = run_demo(options, Console(stderr=arguments.json))
    except CoopConsumerError as error:
        sys.stderr.write(f"{error}\n")
        return exit_code_of(error)
    except KeyboardInterrupt as error:
        return exit_code_of(error)
    if arguments.json:
        sys.stdout.write(json.dumps(result.as_json()) + "\n")
    return ExitCode.OK if result.ok else ExitCode.BROKEN


if __name__ == "__main__":
    sys.exit(main())
