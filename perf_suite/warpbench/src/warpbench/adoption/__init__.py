"""Benchmark files of other projects, unchanged: what they would measure, and the calls that they would time."""
