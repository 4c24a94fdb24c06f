"""Benchmarks of `streams_adapter`, beside what Spark itself has."""
