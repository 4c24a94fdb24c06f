"""Who owns which range of the key-hash space. Pure."""
