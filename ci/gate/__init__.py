"""The gate: base and head measured beside each other until it is sure what moved, or the budget is spent."""
