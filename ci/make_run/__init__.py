"""`make run`: serves the dashboard, and meanwhile measures this machine and imports the results."""
