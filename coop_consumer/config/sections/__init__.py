"""The rows of the table of settings, a module for each section of the documentation. Pure.

A field is the only place that describes its setting. Names, parsing, checks and documentation are
read off the fields (`coop_consumer.config.setting`). Names and figures of the KIP are kept.
"""
