"""asv benchmarks of flash_attention_varlen."""

from . import operator_benchmark


class FlashAttentionVarlen(operator_benchmark.CatalogueBenchmark):
    """All metrics of flash_attention_varlen."""

    operator = "flash_attention_varlen"
