"""Patterns that leave each output once: for single writers, other stores and old topics."""
