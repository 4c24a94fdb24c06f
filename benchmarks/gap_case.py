def gaps(b, r):
    return []
