"""`CooperativeConsumer`: a consumer as confluent-kafka's users know it, that shares partitions.

Room: `coop_consumer`, beside the pool. In: a configuration, topics or ranges, and the user's calls,
from any threads. Out: records one by one, each of which is the caller's until `done` or `failed`.

    consumer     the calls that users make            listener  what users override
    life         begin and end; calls out of turn     consumption  the member at work, run after run
"""

from coop_consumer.consumer.consumer import CooperativeConsumer
from coop_consumer.consumer.listener import RangeListener

__all__ = ["CooperativeConsumer", "RangeListener"]
