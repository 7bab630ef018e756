"""How much work each operator is: floating-point operations, and the least bytes that must move.

Bytes count every input and every output once; what stays in registers or caches costs nothing. FLOPs follow
the operator's formula, not what a kernel does: a fused multiply-add is two, exponentials are left out.
Nothing here needs torch.
"""

from warpbench.cost import ELEMENT_BYTES, Cost

_FP32_BYTES = ELEMENT_BYTES["fp32"]
_FP64_BYTES = 8


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
    window: int | None = None,
    biases: int = 0,
) -> Cost:
    """Two matrix products over the query-key pairs that are seen; q, k, v read and out written once.

    Of each of `biases` matrices (seq_q, seq_kv) the pairs that are seen are read once. With a window, causal alone, a
    query sees that many keys at most, and keys older than the first one's are not read.
    """
    pairs = _causal_pairs(seq_q, seq_kv, window) if causal else seq_q * seq_kv
    queries = batch * heads_q * seq_q * head_dim
    keys = batch * heads_kv * _keys_seen(seq_q, seq_kv, window) * head_dim
    return Cost(
        flops=4 * batch * heads_q * head_dim * pairs, bytes=(2 * queries + 2 * keys + biases * pairs) * element_bytes
    )


def flash_attention_varlen(
    *, lengths: tuple[int, ...], heads_q: int, heads_kv: int, head_dim: int, causal: bool, element_bytes: int
) -> Cost:
    """flash_attention of each sequence, and batch + 1 sums of lengths of 4 bytes for queries and for keys."""
    each = [
        flash_attention(
            batch=1,
            heads_q=heads_q,
            heads_kv=heads_kv,
            seq_q=length,
            seq_kv=length,
            head_dim=head_dim,
            causal=causal,
            element_bytes=element_bytes,
        )
        for length in lengths
    ]
    return Cost(
        flops=sum(cost.flops for cost in each), bytes=sum(cost.bytes for cost in each) + 2 * 4 * (len(lengths) + 1)
    )


def flash_attention_backward(
    *,
    batch: int,
    heads_q: int,
    heads_kv: int,
    seq_q: int,
    seq_kv: int,
    head_dim: int,
    causal: bool,
    element_bytes: int,
    window: int | None = None,
) -> Cost:
    """Five matrix products where the forward pass has two: scores, dp, dq, dk, dv.

    q, out, d_out, k, v and the log-sum-exp read, dq, dk and dv written, once each.
    """
    forward = flash_attention(
        batch=batch,
        heads_q=heads_q,
        heads_kv=heads_kv,
        seq_q=seq_q,
        seq_kv=seq_kv,
        head_dim=head_dim,
        causal=causal,
        element_bytes=element_bytes,
        window=window,
    )
    unseen = batch * heads_kv * (seq_kv - _keys_seen(seq_q, seq_kv, window)) * head_dim  # zeros in dk and dv
    written_too = 2 * unseen * element_bytes + batch * heads_q * seq_q * _FP64_BYTES
    return Cost(flops=forward.flops // 2 * 5, bytes=2 * forward.bytes + written_too)


def _keys_seen(seq_q: int, seq_kv: int, window: int | None) -> int:
    return seq_kv if window is None else min(seq_kv, seq_q + window - 1)


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


def int8_decode_attention(
    *, batch: int, heads_q: int, heads_kv: int, seq_q: int, keys: int, head_dim: int, element_bytes: int
) -> Cost:
    """decode_attention's FLOPs; a byte an element of the cache, and an fp32 scale for each key and each value."""
    queries = batch * heads_q * seq_q * head_dim
    rows = 2 * batch * heads_kv * keys
    return Cost(
        flops=4 * batch * heads_q * head_dim * _causal_pairs(seq_q, keys),
        bytes=2 * queries * element_bytes + rows * (head_dim + _FP32_BYTES),
    )


def int4_decode_attention(
    *, batch: int, heads_q: int, heads_kv: int, seq_q: int, keys: int, head_dim: int, element_bytes: int
) -> Cost:
    """decode_attention's FLOPs; 4 bits an element, scale and zero of 16 for 32; the last keys % 32 as they are."""
    queries = batch * heads_q * seq_q * head_dim
    row = 2 * batch * heads_kv * head_dim
    window = keys % 32
    return Cost(
        flops=4 * batch * heads_q * head_dim * _causal_pairs(seq_q, keys),
        bytes=2 * queries * element_bytes + row * (keys - window) * 5 // 8 + row * window * element_bytes,
    )


def int4_linear(
    *, rows: int, outputs: int, depth: int, group_size: int, element_bytes: int, zero_points: bool = False
) -> Cost:
    """A (rows, depth) by (depth, outputs) product; half a byte a weight, one scale and perhaps a byte more a group."""
    weight = outputs * depth // 2 + outputs * (depth // group_size) * (element_bytes + zero_points)
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


def ffn(*, rows: int, hidden: int, depth: int, element_bytes: int) -> Cost:
    """Products (rows, depth) by (depth, hidden) and back; what lies between them need not move."""
    elements = 2 * rows * depth + 2 * hidden * depth
    return Cost(flops=4 * rows * hidden * depth, bytes=elements * element_bytes)


def transformer_layer(
    *,
    batch: int,
    seq_q: int,
    seq_kv: int,
    hidden: int,
    intermediate: int,
    heads_q: int,
    heads_kv: int,
    element_bytes: int,
) -> Cost:
    """Products and causal attention of a layer with a gated MLP; its norms, rotation and activation are left out.

    Each weight once; x and out; keys and values of all positions once, those of new tokens written and others read.
    """
    head_dim = hidden // heads_q
    weights = 2 * hidden * hidden + 2 * hidden * heads_kv * head_dim + 3 * hidden * intermediate
    rows = batch * seq_q
    attention = 4 * batch * heads_q * head_dim * _causal_pairs(seq_q, seq_kv)
    cache = 2 * batch * heads_kv * seq_kv * head_dim
    return Cost(
        flops=2 * rows * weights + attention, bytes=(weights + 2 * hidden + 2 * rows * hidden + cache) * element_bytes
    )


def language_model(
    *,
    batch: int,
    seq_q: int,
    seq_kv: int,
    layers: int,
    layer_weights: int,
    hidden: int,
    heads_q: int,
    heads_kv: int,
    vocabulary: int,
    positions: int,
    element_bytes: int,
) -> Cost:
    """The layers' products and causal attention for all new tokens, and the head for each sequence's last.

    Each weight once, of a table of positions the rows in use; x, logits, and keys and values of all positions once.
    Norms, biases, rotation and activation are left out.
    """
    head_dim = hidden // heads_q
    rows = batch * seq_q
    attention = 4 * batch * heads_q * head_dim * _causal_pairs(seq_q, seq_kv)
    weights = layers * layer_weights + vocabulary * hidden + positions * hidden
    moved = rows * hidden + batch * vocabulary + 2 * layers * batch * heads_kv * seq_kv * head_dim
    return Cost(
        flops=2 * rows * layers * layer_weights + layers * attention + 2 * batch * vocabulary * hidden,
        bytes=(weights + moved) * element_bytes,
    )


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


def int8_kv_append(*, batch: int, heads: int, tokens: int, head_dim: int, element_bytes: int) -> Cost:
    """Three FLOPs an element: largest magnitude, product, rounding.

    Elements read as they are, written as a byte each and a scale a row. A length a sequence is 4 bytes.
    """
    rows = 2 * batch * heads * tokens
    return Cost(flops=3 * rows * head_dim, bytes=rows * (head_dim * (element_bytes + 1) + _FP32_BYTES) + 4 * batch)


def int4_kv_append(
    *, batch: int, heads: int, tokens: int, head_dim: int, element_bytes: int, whole: int, from_window: int
) -> Cost:
    """`whole` tokens of all sequences are quantized, `from_window` of them read there; what is left is written there.

    Five FLOPs an element of those: least, most, difference, product, rounding. They are written in four bits each, with
    four bytes of scale and zero for 32; a length a sequence is 4 bytes.
    """
    kept = batch * tokens - (whole - from_window)
    moved = (batch * tokens + from_window + kept) * element_bytes * head_dim
    coded = whole * (head_dim // 2 + head_dim // 32 * 4)
    return Cost(flops=5 * 2 * heads * whole * head_dim, bytes=2 * heads * (moved + coded) + 4 * batch)


def paged_kv_append(
    *, batch: int, heads: int, tokens: int, head_dim: int, element_bytes: int, table_entries: int
) -> Cost:
    """As kv_append; a length a sequence and each entry of the page table are 4 bytes."""
    rows = 4 * batch * heads * tokens * head_dim * element_bytes
    return Cost(flops=0, bytes=rows + 4 * batch + 4 * table_entries)


def paged_kv_gather(
    *, batch: int, heads: int, keys: int, head_dim: int, element_bytes: int, table_entries: int
) -> Cost:
    """No FLOP; keys and values read out of their pages and written; a length and a table's entry are 4 bytes."""
    rows = 4 * batch * heads * keys * head_dim * element_bytes
    return Cost(flops=0, bytes=rows + 4 * batch + 4 * table_entries)


def rope_paged_kv_append(
    *,
    batch: int,
    heads: int,
    tokens: int,
    head_dim: int,
    element_bytes: int,
    table_entries: int,
    computed: bool,
) -> Cost:
    """As paged_kv_append, and three FLOPs an element of the keys; a row of cos and of sin a token, unless computed."""
    append = paged_kv_append(
        batch=batch,
        heads=heads,
        tokens=tokens,
        head_dim=head_dim,
        element_bytes=element_bytes,
        table_entries=table_entries,
    )
    tables = 0 if computed else 2 * tokens * (head_dim // 2) * _FP32_BYTES
    return Cost(flops=3 * batch * heads * tokens * head_dim, bytes=append.bytes + tables)


def reduce_sum(*, outer: int, reduced: int, inner: int, element_bytes: int) -> Cost:
    """One sum an element; x (outer, reduced, inner) read, out (outer, inner) written."""
    elements = outer * reduced * inner
    return Cost(flops=elements, bytes=(elements + outer * inner) * element_bytes)


def triad(*, elements: int, element_bytes: int) -> Cost:
    """b + s * c: two arrays read, one written."""
    return Cost(flops=2 * elements, bytes=3 * elements * element_bytes)


def _causal_pairs(seq_q: int, seq_kv: int, window: int | None = None) -> int:
    """Pairs seen when query i sees the keys j <= i + (seq_kv - seq_q), in a window the newest of them."""
    hidden_rows = max(seq_q - seq_kv, 0)
    first = max(seq_kv - seq_q, 0) + 1
    rows = seq_q - hidden_rows
    all_seen = rows * (2 * first + rows - 1) // 2
    if window is None or window >= seq_kv:
        return all_seen
    # What the window hides is what the same queries would see if the newest keys were not there.
    return all_seen - _causal_pairs(seq_q, seq_kv - window)
