"""warpwatch.toml: what a repository wants judged, how strictly, and who is told. One table a file."""
