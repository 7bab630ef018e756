"""The policy of a repository, warpwatch.toml: thresholds, gate, alerts."""
