"""The sub-commands of `python -m perf_suite`, a module each."""
