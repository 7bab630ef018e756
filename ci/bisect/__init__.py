"""Bisection of a performance change with noisy measurements."""
