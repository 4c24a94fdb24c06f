"""Kafka consumers that share partitions by key-hash ranges."""
