"""The only room that talks to Kafka."""

import sys
import warnings

if sys.version_info < (3, 13):
    # kafka-python reads its schemas by a function that these versions call deprecated. Whoever has
    # warnings as errors could not import it. Here it is not imported: not every part needs it.
    warnings.filterwarnings(
        "ignore",
        "(read|open)_text is deprecated",
        DeprecationWarning,
        module=r"kafka\.protocol\.schemas|importlib\.resources\._legacy",
    )
