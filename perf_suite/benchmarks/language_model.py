"""asv benchmarks of whole language models."""

from ..workloads import workload_named
from . import operator_benchmark
from .operator_benchmark import Cache, parameters


class LanguageModel(operator_benchmark.OperatorBenchmark):
    """All metrics of language_model."""

    operator = "language_model"
    params = parameters("language_model")

    def track_tokens_per_second(self, cache: Cache, workload: str, implementation: str) -> float:
        """New tokens of the batch over the median latency: of a prompt, or of decode steps."""
        sizes = workload_named(self.operator, workload).parameters
        return sizes["batch"] * sizes["seq_q"] / self._latency_s(cache, workload, implementation)

    track_tokens_per_second.unit = "tokens/s"  # type: ignore[attr-defined]
