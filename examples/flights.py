"""State for each key that moves with it: every aircraft of New York's flights of 2013, followed.

    coop-consumer broker start
    python examples/flights.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--prefix NAME           names the group and the topics, which must not exist yet
--records N             how many flights, in time order; 20,000 by default

The worker is in `coop_consumer/demo/worker.py`. Its comments tell how an aircraft's last leg moves
with the aircraft from member to member. `coop-consumer demo` shows that with four processes, and
kills one of them. Needs: pip install '.[demo]'.
"""

import argparse

from coop_consumer import WorkerPool
from coop_consumer.demo.check import read_legs
from coop_consumer.demo.flights import read_flights
from coop_consumer.demo.kafka import DemoBroker
from coop_consumer.demo.topics import FlightTopics
from coop_consumer.demo.worker import FlightWorker

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--prefix", default="new-york")
    parser.add_argument("--records", type=int, default=20_000)
    options = parser.parse_args()

    broker = DemoBroker(options.bootstrap)
    topics = FlightTopics(f"{options.prefix}.flights", f"{options.prefix}.legs")
    broker.create_flights(topics.flights)
    broker.create_legs(topics.legs)
    broker.produce(topics.flights, read_flights(options.records))

    config = {**broker.clients, "group.id": options.prefix}
    worker = FlightWorker(broker.clients, topics, latency_s=0.001)
    with WorkerPool(worker, config, [topics.flights], workers=32, until_caught_up=True) as pool:
        pool.wait()

    legs = [leg for _, leg in read_legs(broker.clients, topics.legs)]
    turnarounds = sorted(leg.turnaround_min for leg in legs if leg.turnaround_min is not None)
    print(f"{len(legs):,} legs; {sum(leg.late for leg in legs):,} arrived late")
    print(f"{sum(leg.inherited for leg in legs):,} left late because the leg before was late")
    if turnarounds:
        hours = turnarounds[len(turnarounds) // 2] / 60
        print(f"half of all aircraft were back within {hours:.1f} hours of landing elsewhere")
