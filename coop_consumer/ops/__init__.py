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
    guard          who may ask the server, and what browsers may do with its answers
    sign_in        how a browser shows that its user knows the secret
    token_file     that secret
    requests       what a request says, beside its path
    api_routes     `/api/status` and `/api/scale` of the server
    action_routes  what people may change by the page
    actions        what they may ask for, and who carries it out
    confirmations  proof that they have seen what they ask for
    history        30 minutes of a group or a member in figures
    log_format     lines of the log as JSON
    telemetry      what goes to OpenTelemetry (extra `otel`)
    record_spans   a span for each record or batch     child_traces  in child processes
    carriers       trace contexts as text              traced_outputs  outputs that carry them
    instruments    the table's metrics as instruments  otel_trouble  what OpenTelemetry raises
"""
