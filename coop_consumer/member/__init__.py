"""A member at work: an inbox, the core's thread, hands that carry out actions, and its sources."""
