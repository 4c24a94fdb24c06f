"""What operators see by numbers: metrics of members and groups, and who serves them.

It reads the figures that a member makes of itself (`WorkerPool.metrics()`), and the group's status.
It knows nothing else of a member, and has no client of Kafka.

    metric     a row of the table             table     all rows; docs/metrics.md is made of them
    reference  makes that page                samples   typed figures as samples of the table
    group_metrics  the same of a group's status
    prometheus     samples in Prometheus' words (extra `metrics`)
    child_figures  what handlers in child processes have counted
    server         answers over HTTP (extra `web`)
    metrics_route  `/metrics` of it
    serving        what a member serves at `ops.address`
    health         how a member is, and what probes answer
    health_routes  `/livez` and `/readyz` of the server
    health_file    what a file tells probes
    log_format     lines of the log as JSON
    telemetry      what goes to OpenTelemetry (extra `otel`)
    record_spans   a span for each record or batch     child_traces  in child processes
    carriers       trace contexts as text              traced_outputs  outputs that carry them
    instruments    the table's metrics as instruments  otel_trouble  what OpenTelemetry raises
"""
