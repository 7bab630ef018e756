"""Costs against figures worked out by hand."""

import pytest

from perf_suite.benchmarks import (
    ffn_gelu,
    flash_attention,
    flash_attention_backward,
    flash_attention_varlen,
    int4_linear,
    int8_kv_append,
    int8_linear,
    kv_append,
    layer_norm,
    linear_gelu,
    paged_kv_append,
    paged_kv_gather,
    reduce_sum,
    rms_norm,
    rope,
    rope_paged_kv_append,
    swiglu,
    transformer_layer,
    vector_add,
)
from perf_suite.catalogue import workload_named


def test_rope_reads_and_writes_every_element_and_reads_the_tables_once():
    cost = rope.cost(batch=8, heads=32, seq=2048, head_dim=128, element_bytes=2)
    assert cost.flops == 3 * 67_108_864
    assert cost.bytes == 2 * 134_217_728 + 2 * 2048 * 64 * 4


def test_full_attention_multiplies_every_query_with_every_key_twice():
    cost = flash_attention.cost(
        batch=16, heads_q=32, heads_kv=32, seq_q=512, seq_kv=512, head_dim=64, causal=False, element_bytes=2
    )
    assert cost.flops == 34_359_738_368  # design: 44 µs at 790 TFLOP/s
    assert cost.bytes == 4 * 33_554_432


@pytest.mark.parametrize(("seq_q", "seq_kv"), [(1, 1), (4, 4), (3, 7), (7, 3), (1, 5), (5, 1)])
def test_causal_attention_counts_exactly_the_pairs_that_are_seen(seq_q, seq_kv):
    seen = sum(j <= i + (seq_kv - seq_q) for i in range(seq_q) for j in range(seq_kv))
    cost = flash_attention.cost(
        batch=1, heads_q=1, heads_kv=1, seq_q=seq_q, seq_kv=seq_kv, head_dim=8, causal=True, element_bytes=2
    )
    assert cost.flops == 4 * 8 * seen


@pytest.mark.parametrize(("seq_q", "seq_kv"), [(4, 4), (3, 7), (7, 3), (1, 5)])
@pytest.mark.parametrize("window", [1, 2, 5, 9])
def test_a_window_counts_exactly_the_pairs_that_are_seen_and_gradients_take_five_products(seq_q, seq_kv, window):
    pairs = [(i, j) for i in range(seq_q) for j in range(seq_kv) if 0 <= i + (seq_kv - seq_q) - j < window]
    seen, keys = len(pairs), len({j for _, j in pairs})
    shape = {"batch": 1, "heads_q": 2, "heads_kv": 1, "seq_q": seq_q, "seq_kv": seq_kv, "head_dim": 8}
    forward = flash_attention.cost(**shape, causal=True, window=window, element_bytes=2)
    backward = flash_attention_backward.cost(**shape, causal=True, window=window, element_bytes=2)
    assert forward.flops == 4 * 2 * 8 * seen
    assert backward.flops == 10 * 2 * 8 * seen
    assert forward.bytes == (2 * 2 * seq_q + 2 * keys) * 8 * 2
    assert backward.bytes == (4 * 2 * seq_q + 2 * keys + 2 * seq_kv) * 8 * 2 + 8 * 2 * seq_q


def test_a_bias_is_read_where_it_is_seen_and_packed_sequences_add_up():
    shape = {"heads_q": 4, "heads_kv": 2, "head_dim": 8, "causal": True, "element_bytes": 2}
    plain, other = (flash_attention.cost(batch=1, seq_q=seq, seq_kv=seq, **shape) for seq in (6, 11))
    biased = flash_attention.cost(batch=1, seq_q=6, seq_kv=6, biases=4, **shape)
    assert (biased.flops, biased.bytes) == (plain.flops, plain.bytes + 4 * 21 * 2)
    packed = flash_attention_varlen.cost(lengths=(6, 0, 11), **shape)
    assert (packed.flops, packed.bytes) == (plain.flops + other.flops, plain.bytes + other.bytes + 2 * 4 * 4)


def test_grouped_keys_are_read_once_per_key_head():
    cost = flash_attention.cost(
        batch=1, heads_q=8, heads_kv=2, seq_q=16, seq_kv=16, head_dim=64, causal=False, element_bytes=2
    )
    assert cost.bytes == (2 * 8 + 2 * 2) * 16 * 64 * 2


def test_int4_weight_is_half_a_byte_and_a_scale_a_group():
    cost = int4_linear.cost(rows=1, outputs=4096, depth=4096, group_size=128, element_bytes=2)
    assert cost.flops == 2 * 4096 * 4096
    assert cost.bytes == 8_388_608 + 4096 * 32 * 2 + 2 * 4096 * 2


def test_a_norm_reads_and_writes_each_row_once_and_twice_with_a_residual():
    cost = rms_norm.cost(rows=16384, cols=4096, residual=False, element_bytes=2)
    assert cost.bytes == 2 * 134_217_728 + 4096 * 2
    assert rms_norm.cost(rows=3, cols=5, residual=True, element_bytes=4).bytes == (4 * 15 + 5) * 4
    assert layer_norm.cost(rows=3, cols=5, residual=True, element_bytes=4).bytes == (4 * 15 + 10) * 4
    assert layer_norm.cost(rows=3, cols=5, residual=False, element_bytes=4).flops == 7 * 15


def test_computed_angles_need_no_tables():
    sizes = {"batch": 2, "heads": 3, "seq": 5, "head_dim": 8, "element_bytes": 2}
    assert rope.cost(**sizes).bytes == 2 * 2 * 240 + 2 * 5 * 4 * 4
    assert rope.cost(**sizes, computed=True).bytes == 2 * 2 * 240 + 2 * 8


def test_an_addition_moves_three_vectors_and_a_sum_reads_one():
    assert vector_add.cost(elements=5, element_bytes=4).bytes == 60
    cost = reduce_sum.cost(outer=2, reduced=3, inner=5, element_bytes=2)
    assert (cost.flops, cost.bytes) == (30, 80)


def test_an_append_reads_and_writes_keys_and_values_and_computes_nothing():
    cost = kv_append.cost(batch=2, heads=3, tokens=5, head_dim=8, element_bytes=2)
    assert (cost.flops, cost.bytes) == (0, 4 * 2 * 3 * 5 * 8 * 2 + 2 * 8)


def test_a_gather_moves_what_an_append_does():
    sizes = {"batch": 2, "heads": 3, "head_dim": 8, "element_bytes": 2, "table_entries": 7}
    assert paged_kv_gather.cost(keys=5, **sizes) == paged_kv_append.cost(tokens=5, **sizes)


def test_an_append_that_turns_its_keys_reads_no_row_twice():
    sizes = {"batch": 2, "heads": 3, "tokens": 5, "head_dim": 8, "element_bytes": 2, "table_entries": 7}
    rows = 4 * 240 * 2 + 4 * 2 + 4 * 7
    assert paged_kv_append.cost(**sizes).bytes == rows
    assert rope_paged_kv_append.cost(**sizes, computed=True).bytes == rows
    assert rope_paged_kv_append.cost(**sizes, computed=False).bytes == rows + 2 * 5 * 4 * 4
    assert rope_paged_kv_append.cost(**sizes, computed=False).flops == 3 * 240


def test_int8_weight_is_a_byte_and_a_scale_an_output():
    cost = int8_linear.cost(rows=2, outputs=4096, depth=1024, element_bytes=2)
    assert cost.flops == 2 * 2 * 4096 * 1024
    assert cost.bytes == 4096 * 1024 + 4096 * 4 + 2 * (1024 + 4096) * 2


def test_swiglu_is_two_products_that_read_x_once():
    cost = swiglu.cost(rows=2, outputs=3, depth=5, element_bytes=4)
    assert (cost.flops, cost.bytes) == (2 * 2 * 2 * 3 * 5, (10 + 2 * 15 + 6) * 4)


def test_the_canaries_read_and_write_each_array_once():
    assert workload_named("control", "cuda-fp32-triad-128mib").cost.bytes == 3 * 128 * 1024 * 1024
    assert workload_named("control", "cuda-fp32-triad-128mib").cost.flops == 2 * 33_554_432
    matmul = workload_named("control", "cuda-fp16-matmul-m2048-n2048-k2048").cost
    assert matmul.bytes == 3 * 2048 * 2048 * 2
    assert matmul.flops == 17_179_869_184
    assert linear_gelu.cost(rows=2, outputs=3, depth=5, element_bytes=4).bytes == (10 + 15 + 6) * 4


def test_the_design_floors_follow_from_the_catalogue():
    """Design §6 floors, in µs: max(bytes / 4.37 TB/s, FLOPs / 790 TFLOP/s)."""
    floors = {
        ("flash_attention", "cuda-fp16-b1-h32-s2048-d128-causal"): 44,
        ("int4_linear", "cuda-fp16-k4096-n14336-m1"): 6.9,
        ("rope", "cuda-fp16-b8-h32-s2048-d128"): 61.5,
    }
    for (operator, name), floor_us in floors.items():
        cost = workload_named(operator, name).cost
        assert max(cost.bytes / 4.37e6, cost.flops / 790e6) == pytest.approx(floor_us, rel=0.03)


def test_a_layer_is_its_products_and_its_attention():
    cost = transformer_layer.cost(
        batch=2, seq_q=3, seq_kv=3, hidden=8, intermediate=16, heads_q=4, heads_kv=2, element_bytes=2
    )
    weights = 2 * 8 * 8 + 2 * 8 * 4 + 3 * 8 * 16  # q, o; k, v of two heads of 2; gate, up, down
    pairs = 1 + 2 + 3
    assert cost.flops == 2 * 6 * weights + 4 * 2 * 4 * 2 * pairs
    assert cost.bytes == (weights + 2 * 8 + 2 * 6 * 8 + 2 * 2 * 2 * 3 * 2) * 2


def test_a_step_of_a_model_reads_its_layers_its_head_and_what_was_seen():
    row = workload_named("language_model", "cuda-fp16-llama-l4-b1-s1x1024")
    layer = 4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336
    cache = 2 * 4 * 8 * 1024 * 128
    assert row.cost.flops == 2 * 4 * layer + 2 * 128256 * 4096 + 4 * 4 * 32 * 128 * 1024
    assert row.cost.bytes == 2 * (4 * layer + 128256 * 4096 + 4096 + 128256 + cache)


def test_a_feed_forward_network_keeps_its_hidden_values_to_itself():
    cost = ffn_gelu.cost(rows=3, hidden=16, depth=8, element_bytes=2)
    assert cost.flops == 2 * 2 * 3 * 16 * 8
    assert cost.bytes == 2 * (2 * 3 * 8 + 2 * 16 * 8)


def test_an_append_of_codes_reads_elements_and_writes_a_byte_each_and_a_scale_a_row():
    cost = int8_kv_append.cost(batch=2, heads=3, tokens=5, head_dim=64, element_bytes=2)
    assert cost.bytes == 2 * 2 * 3 * 5 * (64 * (2 + 1) + 4) + 2 * 4
    assert cost.flops == 3 * 2 * 2 * 3 * 5 * 64


def test_an_append_of_4_bits_quantizes_whole_groups_and_keeps_the_rest_in_the_window():
    whole = workload_named("int4_kv_append", "cpu-fp32-b2-h8-n77-d128-capacity128").cost
    heads = 2 * 8  # of keys and of values
    read, kept, coded = 2 * 77 * 128 * 4, 2 * 13 * 128 * 4, 2 * 64 * (128 // 2 + 128 // 32 * 4)
    assert whole.bytes == heads * (read + kept + coded) + 2 * 4
    assert whole.flops == 5 * heads * 2 * 64 * 128
    step = workload_named("int4_kv_append", "cpu-fp32-b34-h2-n1-d64-capacity64").cost  # two sequences close a group
    read, kept, coded = (34 + 2 * 31) * 64 * 4, 32 * 64 * 4, 2 * 32 * (64 // 2 + 64 // 32 * 4)
    assert step.bytes == 2 * 2 * (read + kept + coded) + 34 * 4
