"""What one call of an operator costs the host: Python, the dispatcher, checks, allocation and launch; no kernel time.

`dispatch.py` is a pytest-benchmark file, `child.py` the process that runs it, `session.py` starts and watches that
process once for all operators and writes the records.
"""
