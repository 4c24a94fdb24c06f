"""How the JVMs of tests are started."""

from __future__ import annotations

FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""A test ends before what a better compiler makes of the code has paid, and trusts the jars."""
OPTIONS = " ".join(FLAGS)
SETTINGS = {
    "spark.driver.extraJavaOptions": OPTIONS,
    "spark.executor.extraJavaOptions": OPTIONS,
}
"""The same for Spark."""
