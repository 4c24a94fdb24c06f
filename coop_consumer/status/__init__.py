"""The status of a group: what its members hold, what is done, what holds it up.

Room: `coop_consumer.status`; no Kafka, no thread, no clock. In: what an inspection saw (`seen`), at
a moment. Out: a `GroupStatus` of plain values (`model`), a picture for a terminal (`picture`), a
dict for JSON (`as_json`). Nothing here changes a group. The picture needs the extra `cli`, without
which the library does, so it is imported from its module alone.

    seen      what was asked of the broker           errors    what cannot be shown or done
    model     what it means                          picture   what a person sees of it
    remaining how many records are left              as_json   what a program sees of it
    finding   what a check of the surroundings found  history   where who starts now goes on
"""
