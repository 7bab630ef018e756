"""How an asv benchmark's dotted name reads on a page: the module it stands in, and its name there."""


def module_of(benchmark: str) -> str:
    """The part before class and method: "benchmarks.rope" of "benchmarks.rope.Rope.track_latency".

    asv does not tell modules from classes; by Python's custom classes begin with a capital letter. A benchmark
    without a module is its own.
    """
    parts = benchmark.split(".")[:-1]
    while parts and parts[-1][:1].isupper():
        parts.pop()
    return ".".join(parts) or benchmark


def name_in_module(benchmark: str) -> str:
    """The rest: "Rope.track_latency"."""
    module = module_of(benchmark)
    return benchmark if module == benchmark else benchmark[len(module) + 1 :]
