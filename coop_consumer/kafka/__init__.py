"""The only room that talks to Kafka."""

import sys
import warnings

if sys.version_info < (3, 13):
    # kafka-python reads its schemas by a function that these versions call deprecated. Whoever has
    # warnings as errors could not import it. Once it is imported it has read them all.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
        import kafka  # noqa: F401
