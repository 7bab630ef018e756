"""asv benchmarks of host overhead: what a call costs before the GPU has anything to do."""

import sys

from warpbench.catalogue import benchmark_classes
from warpbench.host_overhead import benchmark


class HostOverhead(benchmark.HostOverheadBenchmark):
    """Host seconds of a call at each operator's smallest shape."""

    kinds = benchmark_classes(sys.modules[__package__])
