"""Keyed state: what a worker remembers of each key, on this host's disk. No Kafka in here.

In: values by record. Out: entries for a changelog, and a store that holds what of it is known to be
there. `entry` is the codec, `positions` says what a store is valid up to, `store` is RocksDB,
`shard` the state of one partition, `keyed` what a worker sees, `folder` where stores lie.
`coop_consumer.state.changelog` ties it to Kafka.
"""
