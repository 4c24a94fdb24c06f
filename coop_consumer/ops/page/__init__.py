"""The page: what is stuck, why, and the command that helps; then the picture, figures, history.

In: the feed of a group, or a member's own figures. Out: HTML, and events with what changed in it.
The values of a page are made first, as plain text and numbers (`needs`, `picture`, `group_page`,
`member_page`: pure). Templates only lay them out. Everything from records, members and errors goes
through `shown`, and is escaped by the templates.

    shown       text of strangers, and keys that are no text
    needs       what needs a person, the worst first, each with its command
    picture     partitions and the hash space: where each range lies, whose it is, how far it is
    letters        what the page calls each member, for as long as that is there
    own_page    where a member's own page is: a link, or a command that brings it
    trouble     why there is nothing to see, and what to do
    sparkline   a figure over the last half hour, as points of a line
    group_page  all that the page of a group says       groups_page  the list of groups
    member_page all that a member says of itself        member_needs  what needs a person there
    rendering   from values to HTML (extra `web`)
    stream      brings what has changed to browsers that look
    routes      the paths of groups                     member_routes  those of a member
"""
