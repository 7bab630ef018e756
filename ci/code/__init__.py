"""Changes of compiled code between two commits, computed without a GPU."""
