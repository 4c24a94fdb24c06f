"""What operators' commands and planned jobs do: inspect a group from outside, and amend it."""
