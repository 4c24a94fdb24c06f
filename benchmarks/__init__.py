"""Speed and cost, measured: `python -m benchmarks CASE`, and one module a room."""
