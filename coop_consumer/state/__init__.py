"""Keyed state: what a worker remembers of each key, on this host's disk. No Kafka in here.

In: values by record. Out: entries for a changelog, and a store that holds only what the changelog
holds. `entry` is the codec, `positions` says up to where a store is valid, `store` is RocksDB,
`shard` the state of one partition, `keyed` what a worker sees, `folder` where stores lie.
`coop_consumer.state.changelog` connects the state to Kafka.
"""
