"""Slow and plain implementations that know nothing of the package; tests compare with them."""
