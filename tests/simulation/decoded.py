"""Keys and values of the progress log, decoded once.

In: bytes. Out: what they say, which nobody changes. All members of a world read the same records,
and so does the judge: without this, a seed takes a tenth longer.
"""

from __future__ import annotations

from functools import lru_cache

import offsets

decode_key = lru_cache(4_096)(offsets.decode_key)
decode_value = lru_cache(4_096)(offsets.decode_value)
