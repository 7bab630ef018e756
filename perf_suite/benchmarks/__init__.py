"""What asv runs. Light on purpose: a benchmark's process only reads what setup_cache measured, without torch."""
