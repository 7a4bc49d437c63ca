"""Numpy in, numbers out: the definitions, and their intervals."""
