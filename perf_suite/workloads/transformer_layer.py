"""Workloads of transformer_layer: one layer of Llama's kind, a prompt or one new token over a cache."""

from warpbench.workload import Workload

from .. import costs
from ..language_models import LLAMA_2_7B, LLAMA_3_8B, LanguageModel

# Some ten roundings lie on the way through a layer, each about 2.8e-4 in fp16 (bf16: eight times that) of values no
# larger than the result; independent ones add up to three times as much, and cuBLAS may add split-K parts in fp16.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}
_IMPLEMENTATIONS = ("warpwatch", "eager", "torch_compile")


def workload(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    seq_len: int,  # new tokens
    seq_len_kv: int | None = None,  # positions of each sequence, the new ones among them: as many
    hidden: int = 4096,
    intermediate: int = 11008,
    heads: int = 32,
    heads_kv: int | None = None,  # as many as heads
) -> Workload:
    """One layer. Raises ValueError for heads that do not divide, and for more than one new token over a cache."""
    heads_kv = heads if heads_kv is None else heads_kv
    seq_len_kv = seq_len if seq_len_kv is None else seq_len_kv
    if hidden % heads or heads % heads_kv:
        raise ValueError(f"heads ({heads}) must divide hidden ({hidden}) and be a multiple of heads_kv ({heads_kv})")
    if seq_len != seq_len_kv and not seq_len == 1 < seq_len_kv:
        raise ValueError(f"seq_len ({seq_len}) must be 1 or seq_len_kv ({seq_len_kv})")
    grouped = f"-kv{heads_kv}" if heads_kv != heads else ""
    over = f"x{seq_len_kv}" if seq_len_kv != seq_len else ""
    return Workload(
        operator="transformer_layer",
        name=f"{device}-{dtype}-b{batch}-s{seq_len}{over}-e{hidden}-f{intermediate}-h{heads}{grouped}",
        device=device,
        dtype=dtype,
        parameters={
            "batch": batch,
            "seq_q": seq_len,
            "seq_kv": seq_len_kv,
            "hidden": hidden,
            "intermediate": intermediate,
            "heads_q": heads,
            "heads_kv": heads_kv,
        },
        cost=costs.transformer_layer(
            batch=batch,
            seq_q=seq_len,
            seq_kv=seq_len_kv,
            hidden=hidden,
            intermediate=intermediate,
            heads_q=heads,
            heads_kv=heads_kv,
            element_bytes=costs.ELEMENT_BYTES[dtype],
        ),
        implementations=_IMPLEMENTATIONS if device == "cuda" else _IMPLEMENTATIONS[:2],
        tolerance=_TOLERANCE[dtype],
    )


def _of(model: LanguageModel, *, batch: int = 1, seq_len: int, seq_len_kv: int | None = None) -> Workload:
    return workload(
        "cuda",
        "fp16",
        batch=batch,
        seq_len=seq_len,
        seq_len_kv=seq_len_kv,
        hidden=model.hidden,
        intermediate=model.intermediate,
        heads=model.heads,
        heads_kv=model.heads_kv,
    )


WORKLOADS = (
    _of(LLAMA_2_7B, seq_len=512),
    _of(LLAMA_2_7B, seq_len=1024),
    _of(LLAMA_2_7B, seq_len=2048),
    _of(LLAMA_2_7B, seq_len=4096),
    _of(LLAMA_3_8B, seq_len=2048),
    _of(LLAMA_3_8B, batch=1, seq_len=1, seq_len_kv=1024),
    _of(LLAMA_3_8B, batch=16, seq_len=1, seq_len_kv=1024),
    workload("cpu", "fp32", seq_len=16, hidden=128, intermediate=256, heads=4, heads_kv=2),
    workload("cpu", "fp32", batch=2, seq_len=1, seq_len_kv=32, hidden=128, intermediate=256, heads=4, heads_kv=2),
)
