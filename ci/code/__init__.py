"""What a commit does to compiled code, told on a machine without a GPU."""
