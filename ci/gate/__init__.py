"""The gate: base and head are measured in turns until every series is decided, or the budget is spent."""
