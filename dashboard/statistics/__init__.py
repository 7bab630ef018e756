"""Pure functions: values in, records out. No database, clock, logger or settings."""
