"""What is done: gap tracking, progress, codec. Pure."""
