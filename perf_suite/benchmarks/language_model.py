"""asv benchmarks of whole language models."""

from warpbench.asv_metrics import Cache

from . import operator_benchmark


class LanguageModel(operator_benchmark.CatalogueBenchmark):
    """All metrics of language_model."""

    operator = "language_model"

    def track_tokens_per_second(self, cache: Cache, workload: str, implementation: str) -> float:
        """New tokens of the batch over the median latency: of a prompt, or of decode steps."""
        sizes = self.workload_named(workload).parameters
        return sizes["batch"] * sizes["seq_q"] / self._latency_s(cache, workload, implementation)

    track_tokens_per_second.unit = "tokens/s"  # type: ignore[attr-defined]
