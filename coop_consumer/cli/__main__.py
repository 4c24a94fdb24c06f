"""`python -m coop_consumer.cli`: the command line where its script is not on PATH."""

from coop_consumer.cli import main

main()
