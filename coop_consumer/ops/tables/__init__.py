"""The rows of `coop_consumer.ops.table`, by whose figures they are. Pure data."""
