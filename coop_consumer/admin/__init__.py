"""What operators' commands and planned jobs do: look at a group from outside, and amend it."""
