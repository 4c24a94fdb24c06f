"""How Spark's JVMs of tests are started."""

from __future__ import annotations

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A test ends before what a better compiler makes of Spark's code has paid."""
SETTINGS = {
    "spark.driver.extraJavaOptions": OPTIONS,
    "spark.executor.extraJavaOptions": OPTIONS,
}
