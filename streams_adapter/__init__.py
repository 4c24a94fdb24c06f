"""Spark: workers as executors."""
