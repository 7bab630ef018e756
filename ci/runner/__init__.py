"""Runners: diagnosis, set-up, locked clocks, registration, and trust in their results."""
