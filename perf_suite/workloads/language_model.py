"""Workloads of language_model: a whole model of transformers, random weights: a prompt, or one new token over a cache.

Only the last position's logits are worked out, as in generating. The latency of a step of a batch is also that of batch
tokens: tokens_per_second. Steps are timed as a CUDA graph's replays too (warm_latency).
"""

from dataclasses import replace
from typing import Any

from warpbench.workload import Workload

from .. import costs
from ..language_models import GPT_2, LLAMA_3_8B, Architecture, LanguageModel

_IMPLEMENTATIONS = ("warpwatch", "eager")
# Rounding to a dtype costs about so much of a value, root mean square.
_ROUNDING = {"fp16": 2.8e-4, "bf16": 2.3e-3, "fp32": 3.5e-8}
# Some six roundings on the way through each of a layer's two branches, and one of the sum that it ends in.
_ROUNDINGS_OF_A_LAYER = 14
_SPLIT_K = 2  # cuBLAS may add the parts of a sum in the dtype
_LEAST = 1e-5  # of fp32, where summing thousands of products costs more than rounding results


def tolerance(dtype: str, layers: int) -> float:
    """Independent roundings add up as their squares, over as many as there are on the longest way through the model."""
    return max(_LEAST, _SPLIT_K * _ROUNDING[dtype] * (_ROUNDINGS_OF_A_LAYER * layers) ** 0.5)


def workload(
    device: str,
    dtype: str,
    *,
    gpt2: bool = False,
    batch: int = 1,
    seq_len: int,  # new tokens
    seq_len_kv: int | None = None,  # positions of each sequence, the new ones among them: as many
    hidden: int | None = None,  # these sizes are GPT-2 124M's or Llama 3 8B's
    intermediate: int | None = None,
    layers: int | None = None,
    heads: int | None = None,
    heads_kv: int | None = None,
    vocabulary: int | None = None,
) -> Workload:
    """A model of GPT-2's kind or of Llama's. Raises ValueError for sizes that do not go together."""
    seq_len_kv = seq_len if seq_len_kv is None else seq_len_kv
    given = {
        "hidden": hidden,
        "intermediate": intermediate,
        "layers": layers,
        "heads": heads,
        "heads_kv": heads_kv if heads_kv is not None or not gpt2 else heads,
        "vocabulary": vocabulary,
    }
    published = GPT_2 if gpt2 else LLAMA_3_8B
    sizes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    model = replace(published, **sizes)
    if model.hidden % model.heads or model.heads % model.heads_kv:
        raise ValueError(
            f"heads ({model.heads}) must divide hidden ({model.hidden}) "
            f"and be a multiple of heads_kv ({model.heads_kv})"
        )
    if seq_len != seq_len_kv and not seq_len == 1 < seq_len_kv:
        raise ValueError(f"seq_len ({seq_len}) must be 1 or seq_len_kv ({seq_len_kv})")
    if seq_len_kv > model.context:
        raise ValueError(f"seq_len_kv ({seq_len_kv}) must be at most {model.context}, the model's context")
    over = f"x{seq_len_kv}" if seq_len_kv != seq_len else ""
    return Workload(
        operator="language_model",
        name=f"{device}-{dtype}-{_named(model, published)}-b{batch}-s{seq_len}{over}",
        device=device,
        dtype=dtype,
        parameters={
            "gpt2": gpt2,
            "batch": batch,
            "seq_q": seq_len,
            "seq_kv": seq_len_kv,
            "hidden": model.hidden,
            "intermediate": model.intermediate,
            "layers": model.layers,
            "heads_q": model.heads,
            "heads_kv": model.heads_kv,
            "vocabulary": model.vocabulary,
        },
        cost=_cost(model, batch, seq_len, seq_len_kv, costs.ELEMENT_BYTES[dtype]),
        implementations=_IMPLEMENTATIONS,
        tolerance=tolerance(dtype, model.layers),
        replayed=seq_len < seq_len_kv,
    )


def _named(model: LanguageModel, published: LanguageModel) -> str:
    """Its kind and layers, and the sizes that are not the published model's."""
    letters = {"e": "hidden", "f": "intermediate", "h": "heads", "kv": "heads_kv", "v": "vocabulary"}
    other = [size for size in letters.items() if getattr(model, size[1]) != getattr(published, size[1])]
    sizes = "".join(f"-{letter}{getattr(model, size)}" for letter, size in other)
    return f"{model.architecture.value}-l{model.layers}{sizes}"


def model_of(workload: Workload) -> LanguageModel:
    """The sizes that a row was made with."""
    p = workload.parameters
    return replace(
        GPT_2 if p["gpt2"] else LLAMA_3_8B,
        hidden=p["hidden"],
        intermediate=p["intermediate"],
        layers=p["layers"],
        heads=p["heads_q"],
        heads_kv=p["heads_kv"],
        vocabulary=p["vocabulary"],
    )


def _cost(model: LanguageModel, batch: int, seq_q: int, seq_kv: int, element_bytes: int) -> costs.Cost:
    gated = model.architecture is Architecture.LLAMA
    return costs.language_model(
        batch=batch,
        seq_q=seq_q,
        seq_kv=seq_kv,
        layers=model.layers,
        layer_weights=sum(shape.depth * shape.outputs for shape in model.linears),
        hidden=model.hidden,
        heads_q=model.heads,
        heads_kv=model.heads_kv,
        vocabulary=model.vocabulary,
        positions=0 if gated else seq_q,
        element_bytes=element_bytes,
    )


def _compiled_too(row: Workload) -> Workload:
    """With torch.compile, which takes longer to trace a whole model than all the rest of its row."""
    return replace(row, implementations=(*row.implementations, "torch_compile"))


WORKLOADS = (
    workload("cuda", "fp16", gpt2=True, seq_len=512),
    workload("cuda", "fp16", gpt2=True, batch=8, seq_len=1024),
    _compiled_too(workload("cuda", "fp16", gpt2=True, batch=1, seq_len=1, seq_len_kv=512)),
    workload("cuda", "fp16", gpt2=True, batch=16, seq_len=1, seq_len_kv=512),
    workload("cuda", "fp16", layers=4, seq_len=512),  # Llama 3 8B's layers
    _compiled_too(workload("cuda", "fp16", layers=4, batch=1, seq_len=1, seq_len_kv=1024)),
    workload("cuda", "fp16", layers=4, batch=16, seq_len=1, seq_len_kv=1024),
    workload("cpu", "fp32", gpt2=True, seq_len=16, hidden=64, intermediate=128, layers=2, heads=2, vocabulary=256),
    workload(
        "cpu",
        "fp32",
        seq_len=1,
        seq_len_kv=24,
        hidden=64,
        intermediate=128,
        layers=2,
        heads=4,
        heads_kv=2,
        vocabulary=256,
    ),
)
