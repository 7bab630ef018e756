"""asv benchmarks of flash_attention_backward."""

from . import operator_benchmark


class FlashAttentionBackward(operator_benchmark.CatalogueBenchmark):
    """All metrics of flash_attention_backward."""

    operator = "flash_attention_backward"
