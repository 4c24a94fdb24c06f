def scale(b, r):
    return []
