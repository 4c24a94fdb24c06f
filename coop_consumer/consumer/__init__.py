"""`CooperativeConsumer`: a consumer as confluent-kafka's users know it, that shares partitions.

Room: `coop_consumer`, beside the pool. In: a configuration, topics or ranges, and the user's calls,
from any threads. Out: records one by one, each of which is the caller's until `done` or `failed`.

    consumer     what to consume                   listener     what users override
    records      a record's way: poll, send, done  consumption  the member at work, run after run
    progress     commit, position, pause, seek     block        records that count as a whole
    life         begin and end; calls out of turn
"""

from coop_consumer.consumer.consumer import CooperativeConsumer
from coop_consumer.consumer.listener import RangeListener

__all__ = ["CooperativeConsumer", "RangeListener"]
