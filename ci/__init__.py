"""From a verdict to the people it concerns: the command line, alerts, and what workflows call."""
