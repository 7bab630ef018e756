"""The benchmarks of warpwatch's own kernels. asv carries this package over all commits; it is never installed."""
