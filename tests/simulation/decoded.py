"""What members read, decoded once.

In: bytes. Out: what they say, which nobody changes. All members of a world read the same records,
and the judge reads all that they write: without this, a seed takes a tenth longer.
"""

from __future__ import annotations

from functools import lru_cache

import assignors
import offsets

decode_assignment = lru_cache(4_096)(assignors.decode_assignment)
decode_subscription = lru_cache(4_096)(assignors.decode_subscription)
decode_key = lru_cache(4_096)(offsets.decode_key)
decode_value = lru_cache(4_096)(offsets.decode_value)
