"""Pure decisions of one member: events in, actions out."""
