"""How much work each operator is: floating-point operations, and the least bytes that must move.

Bytes count every input and every output once; what stays in registers or caches costs nothing. FLOPs follow
the operator's formula, not what a kernel does: a fused multiply-add is two, exponentials are left out.
Nothing here needs torch.
"""

from dataclasses import dataclass

ELEMENT_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}
_FP32_BYTES = ELEMENT_BYTES["fp32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The work of one call."""

    flops: int  # 0 for what only moves data: such a call has a bandwidth, but no throughput and no place on a roofline
    bytes: int


def rope(*, batch: int, heads: int, seq: int, head_dim: int, element_bytes: int, computed: bool = False) -> Cost:
    """Three FLOPs an element (two products, one sum); x and the fp32 tables read, out written.

    Computed angles count no FLOP; then a position of 8 bytes a sequence is read and no table.
    """
    elements = batch * heads * seq * head_dim
    tables = 8 * batch if computed else 2 * seq * (head_dim // 2) * _FP32_BYTES
    return Cost(flops=3 * elements, bytes=2 * elements * element_bytes + tables)


def flash_attention(
    *,
    batch: int,
    heads_q: int,
    heads_kv: int,
    seq_q: int,
    seq_kv: int,
    head_dim: int,
    causal: bool,
    element_bytes: int,
) -> Cost:
    """Two matrix products over the query-key pairs that are seen; q, k, v read and out written once."""
    pairs = _causal_pairs(seq_q, seq_kv) if causal else seq_q * seq_kv
    queries = batch * heads_q * seq_q * head_dim
    keys = batch * heads_kv * seq_kv * head_dim
    return Cost(flops=4 * batch * heads_q * head_dim * pairs, bytes=(2 * queries + 2 * keys) * element_bytes)


def decode_attention(
    *,
    batch: int,
    heads_q: int,
    heads_kv: int,
    seq_q: int,
    keys: int,
    head_dim: int,
    element_bytes: int,
    table_entries: int = 0,
) -> Cost:
    """Two matrix products over the pairs of new tokens and keys that are seen; q, out, keys and values once.

    Each sequence has so many keys, the new tokens' own among them; an entry of a page table is 4 bytes.
    """
    queries = batch * heads_q * seq_q * head_dim
    cache = batch * heads_kv * keys * head_dim
    return Cost(
        flops=4 * batch * heads_q * head_dim * _causal_pairs(seq_q, keys),
        bytes=(2 * queries + 2 * cache) * element_bytes + 4 * table_entries,
    )


def int4_linear(*, rows: int, outputs: int, depth: int, group_size: int, element_bytes: int) -> Cost:
    """A (rows, depth) by (depth, outputs) product; half a byte a weight and one scale a group."""
    weight = outputs * depth // 2 + outputs * (depth // group_size) * element_bytes
    activations = (rows * depth + rows * outputs) * element_bytes
    return Cost(flops=2 * rows * outputs * depth, bytes=weight + activations)


def int8_linear(*, rows: int, outputs: int, depth: int, element_bytes: int) -> Cost:
    """A (rows, depth) by (depth, outputs) product of bytes; x is read as it comes, each output has a scale."""
    weight = outputs * depth + outputs * _FP32_BYTES
    activations = (rows * depth + rows * outputs) * element_bytes
    return Cost(flops=2 * rows * outputs * depth, bytes=weight + activations)


def swiglu(*, rows: int, outputs: int, depth: int, element_bytes: int) -> Cost:
    """Two (rows, depth) by (depth, outputs) products; x read, two weights read, one result written."""
    elements = rows * depth + 2 * outputs * depth + rows * outputs
    return Cost(flops=4 * rows * outputs * depth, bytes=elements * element_bytes)


def linear(*, rows: int, outputs: int, depth: int, element_bytes: int) -> Cost:
    """A (rows, depth) by (depth, outputs) product, every matrix in the same dtype."""
    elements = rows * depth + outputs * depth + rows * outputs
    return Cost(flops=2 * rows * outputs * depth, bytes=elements * element_bytes)


def rms_norm(*, rows: int, cols: int, residual: bool, element_bytes: int) -> Cost:
    """Square, sum, scale and weight an element; rows read, out written; with a residual one sum, read and written."""
    elements = rows * cols
    moved = (4 if residual else 2) * elements + cols
    return Cost(flops=(5 if residual else 4) * elements, bytes=moved * element_bytes)


def layer_norm(*, rows: int, cols: int, residual: bool, element_bytes: int) -> Cost:
    """Seven FLOPs an element: mean, distance, square, sum, scale, weight, bias; bytes as for rms_norm, and the bias."""
    elements = rows * cols
    moved = (4 if residual else 2) * elements + 2 * cols
    return Cost(flops=(8 if residual else 7) * elements, bytes=moved * element_bytes)


def vector_add(*, elements: int, element_bytes: int) -> Cost:
    """One sum an element; two vectors read, one written."""
    return Cost(flops=elements, bytes=3 * elements * element_bytes)


def kv_append(*, batch: int, heads: int, tokens: int, head_dim: int, element_bytes: int) -> Cost:
    """No FLOP at all; new keys and values read, and written to the caches. A position a sequence is 8 bytes."""
    return Cost(flops=0, bytes=4 * batch * heads * tokens * head_dim * element_bytes + 8 * batch)


def reduce_sum(*, outer: int, reduced: int, inner: int, element_bytes: int) -> Cost:
    """One sum an element; x (outer, reduced, inner) read, out (outer, inner) written."""
    elements = outer * reduced * inner
    return Cost(flops=elements, bytes=(elements + outer * inner) * element_bytes)


def triad(*, elements: int, element_bytes: int) -> Cost:
    """b + s * c: two arrays read, one written."""
    return Cost(flops=2 * elements, bytes=3 * elements * element_bytes)


def _causal_pairs(seq_q: int, seq_kv: int) -> int:
    """Pairs seen when query i sees the keys j <= i + (seq_kv - seq_q)."""
    hidden_rows = max(seq_q - seq_kv, 0)
    first = max(seq_kv - seq_q, 0) + 1
    rows = seq_q - hidden_rows
    return rows * (2 * first + rows - 1) // 2
