"""The status of a group: what its members hold, what is done, what holds it up.

Room: `coop_consumer.status`; no Kafka, no thread, no clock. In: what an inspection saw (`seen`), at
a moment. Out: a `GroupStatus` of plain values (`model`), a picture for a terminal (`picture`), a
dict for JSON (`as_json`). Nothing here changes a group. The picture needs the extra `cli`, which
the library does not need, so only its own module exports it.

    seen      what the broker answered               errors    what cannot be shown or done
    model     what it means                          picture   the view for a person
    remaining how many records are left              as_json   the view for a program
    finding   results of a check-up                  history   where a new member would begin
    guarantee by which a group works                 open_transaction  what holds up readers
    load      how busy members are, by their reports load_picture      the same as lines
    arrivals  how fast records come                  needs    what `scale` asks of a status
    demand    workers that partitions keep busy      scale    members wanted, and why
    words     how views say all this                 large    some of many partitions and warnings
"""
