"""What operators see by numbers: metrics of members and groups, and who serves them.

It reads the figures that a member makes of itself (`WorkerPool.metrics()`), and the group's status.
It knows nothing else of a member, and has no client of Kafka.

    health      how a member is, and what probes answer        log_format  lines of the log as JSON
    health_file what a file tells probes
"""
