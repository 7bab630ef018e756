"""The measuring instrument. asv carries this package over all commits; it is never installed."""
