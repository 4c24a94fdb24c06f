"""What users would pick instead of this library, side by side with it.

    raw                one consumer that touches each record: the ceiling, and no processing
    plain              a plain group of as many processes as partitions
    lanes              one consumer, hash(key) % width threads with queues, written by hand
    pyrallel-consumer  from PyPI, in an environment of its own
    parallel-consumer  Confluent's, in Java, built by Maven

`benchmarks/systems.py` says who takes part. Nothing is imported here: these modules run in peers'
environments.
"""
