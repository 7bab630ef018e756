"""`make run`: the dashboard first, then this machine's measurement, followed until its results are in the history."""
