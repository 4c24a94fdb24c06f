"""Makes `keyrange` known to every Spark session by itself, SQL and Spark Connect included.

PySpark imports every installed top-level module whose name begins with `pyspark_`, once a driver,
and registers its `DefaultSource`. It does so for all users of this Python, whether they read
`keyrange` or not. So nothing may be raised here: PySpark would find no data source at all then.
"""

from __future__ import annotations

import logging

try:
    from streams_adapter.format import KeyRangeSource as DefaultSource
except Exception as error:  # noqa: BLE001 - of whatever kind, see above
    logging.getLogger(__name__).warning(
        "format keyrange is not known to Spark: %s. Other formats are not concerned. "
        "pip install 'coop-consumer[spark]' brings what it needs.",
        error,
        extra={"event": "spark.format_missing", "error": type(error).__name__},
    )
else:
    __all__ = ["DefaultSource"]
