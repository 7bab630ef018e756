"""language_model: a whole model of transformers, random weights: a prompt, or one new token over a cache.

Only the last position's logits are computed, as in generating. The latency of a step of a batch is also that of batch
tokens: tokens_per_second. Steps are timed as a CUDA graph's replays too (warm_latency).
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from warpbench import Case, UnavailableError, baseline, kernel
from warpbench.asv_metrics import Cache
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch
from warpbench.torch_compile import compiled

from .. import language_models, warpwatch_benchmark
from ..language_models import GPT_2, LLAMA_3_8B, Architecture
from ..warpwatch_operators import warpwatch_operator
from .flash_attention import cost as attention_cost

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from warpbench.draw import Draw

_WITH_COMPILE = ("warpwatch", "eager", "torch_compile")
# Rounding to a dtype costs about so much of a value, root mean square.
_ROUNDING = {"fp16": 2.8e-4, "bf16": 2.3e-3, "fp32": 3.5e-8}
# Some six roundings on the way through each of a layer's two branches, and one of the sum that it ends in.
_ROUNDINGS_OF_A_LAYER = 14
_SPLIT_K = 2  # cuBLAS may add the parts of a sum in the dtype
_LEAST = 1e-5  # of fp32, where summing thousands of products costs more than rounding results


def case(
    device: str,
    dtype: str,
    # torch.compile takes longer to trace a whole model than all the rest of its case.
    implementations: Sequence[str] = ("warpwatch", "eager"),
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
) -> Case:
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
    work = cost(model, batch=batch, seq_q=seq_len, seq_kv=seq_len_kv, element_bytes=ELEMENT_BYTES[dtype])
    return Case(
        f"{device}-{dtype}-{_named(model, published)}-b{batch}-s{seq_len}{over}",
        device=device,
        dtype=dtype,
        tolerance=_tolerance(dtype, model.layers),
        bytes=work.bytes,
        flops=work.flops,
        implementations=implementations,
        replayed=seq_len < seq_len_kv,
        gpt2=gpt2,
        batch=batch,
        seq_q=seq_len,
        seq_kv=seq_len_kv,
        hidden=model.hidden,
        intermediate=model.intermediate,
        layers=model.layers,
        heads_q=model.heads,
        heads_kv=model.heads_kv,
        vocabulary=model.vocabulary,
    )


def cost(model: language_models.LanguageModel, *, batch: int, seq_q: int, seq_kv: int, element_bytes: int) -> Cost:
    """The layers' products and causal attention for all new tokens, and the head for each sequence's last.

    Each weight once, of a table of positions the rows in use; x, logits, and keys and values of all positions once.
    Norms, biases, rotation and activation are left out.
    """
    attention = attention_cost(
        batch=batch,
        heads_q=model.heads,
        heads_kv=model.heads_kv,
        seq_q=seq_q,
        seq_kv=seq_kv,
        head_dim=model.head_dim,
        causal=True,
        element_bytes=element_bytes,
    )
    rows = batch * seq_q
    layers = model.layers * sum(shape.depth * shape.outputs for shape in model.linears)
    head = model.vocabulary * model.hidden
    positions = 0 if model.architecture is Architecture.LLAMA else seq_q * model.hidden
    cache = 2 * model.layers * batch * model.heads_kv * seq_kv * model.head_dim
    moved = layers + head + positions + rows * model.hidden + batch * model.vocabulary + cache
    return Cost(
        flops=2 * rows * layers + model.layers * attention.flops + 2 * batch * head, bytes=moved * element_bytes
    )


def _tolerance(dtype: str, layers: int) -> float:
    """Independent roundings add up as their squares, over as many as there are on the longest way through the model."""
    return max(_LEAST, _SPLIT_K * _ROUNDING[dtype] * (_ROUNDINGS_OF_A_LAYER * layers) ** 0.5)


def _named(model: language_models.LanguageModel, published: language_models.LanguageModel) -> str:
    """Its kind and layers, and the sizes that are not the published model's."""
    letters = {"e": "hidden", "f": "intermediate", "h": "heads", "kv": "heads_kv", "v": "vocabulary"}
    other = [size for size in letters.items() if getattr(model, size[1]) != getattr(published, size[1])]
    sizes = "".join(f"-{letter}{getattr(model, size)}" for letter, size in other)
    return f"{model.architecture.value}-l{model.layers}{sizes}"


def _model_of(case: Case) -> language_models.LanguageModel:
    """The sizes that a case was made with."""
    return replace(
        GPT_2 if case.gpt2 else LLAMA_3_8B,
        hidden=case.hidden,
        intermediate=case.intermediate,
        layers=case.layers,
        heads=case.heads_q,
        heads_kv=case.heads_kv,
        vocabulary=case.vocabulary,
    )


@dataclass(slots=True, kw_only=True)
class Served:
    """A model and what it has seen: one for all copies of the inputs.

    Weights in many allocations already lie in many places of memory, and copies of a whole model would take longer to
    make than to measure.
    """

    model: PreTrainedModel
    past: torch.Tensor  # (layers, 2, batch, heads_kv, seen, head_dim): keys and values
    kept: dict[str, Any] = field(default_factory=dict)  # what implementations prepare once

    def __deepcopy__(self, _memo: dict[int, object]) -> Served:
        return self

    @property
    def seen(self) -> int:
        """Positions before the new ones."""
        return self.past.shape[4]

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` returns for the first of the inputs' copies."""
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]


class LanguageModel(warpwatch_benchmark.WarpwatchBenchmark):
    """Logits (batch, 1, vocabulary) of the last position.

    x (batch, seq_q, hidden) are vectors in the place of tokens', so that each draw differs.
    """

    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", gpt2=True, seq_len=512),
        case("cuda", "fp16", gpt2=True, batch=8, seq_len=1024),
        case("cuda", "fp16", _WITH_COMPILE, gpt2=True, batch=1, seq_len=1, seq_len_kv=512),
        case("cuda", "fp16", gpt2=True, batch=16, seq_len=1, seq_len_kv=512),
        case("cuda", "fp16", layers=4, seq_len=512),  # Llama 3 8B's layers
        case("cuda", "fp16", _WITH_COMPILE, layers=4, batch=1, seq_len=1, seq_len_kv=1024),
        case("cuda", "fp16", layers=4, batch=16, seq_len=1, seq_len_kv=1024),
        case("cpu", "fp32", gpt2=True, seq_len=16, hidden=64, intermediate=128, layers=2, heads=2, vocabulary=256),
        case(
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

    def track_tokens_per_second(self, cache: Cache, workload: str, implementation: str) -> float:
        """New tokens of the batch over the median latency: of a prompt, or of decode steps."""
        sizes: Mapping[str, Any] = self.workload_named(workload).parameters
        return sizes["batch"] * sizes["seq_q"] / self._latency_s(cache, workload, implementation)

    track_tokens_per_second.unit = "tokens/s"  # type: ignore[attr-defined]

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal x and past, and the weights that transformers begins training with.

        Raises UnavailableError where transformers is not installed.
        """
        from ..transformers_models import random_model

        model_of_case = _model_of(case)
        seed = int(draw.integers(0, 2**31, (1,)))
        try:
            model = random_model(model_of_case, dtype=draw.dtype, device=str(draw.device), seed=seed)
        except ModuleNotFoundError as missing:
            raise UnavailableError(f"{missing}: pip install 'warpwatch[models]'") from missing
        x = draw.activation(case.batch, case.seq_q, case.hidden)
        seen = case.seq_kv - case.seq_q
        past = draw.activation(case.layers, 2, case.batch, case.heads_kv, seen, model_of_case.head_dim)
        return {"x": x, "served": Served(model=model.requires_grad_(False), past=past)}

    def reference(self, x: torch.Tensor, served: Served) -> torch.Tensor:
        """The unmodified model's own logits in float64, but for what transformers does in float32: norms and angles."""
        exact = copy.deepcopy(served.model).double()
        past = served.past.double()
        with torch.no_grad():
            return _last_logits(exact, x, _dynamic_cache(exact.config, past)).double()

    @kernel(binds=True)
    def warpwatch(self, x: torch.Tensor, served: Served) -> Callable[[], Any]:
        """The model with the commit's kernels: attention, cache, norms, and what else the architecture has."""
        model, cache = served.once("warpwatch", lambda: _with_our_kernels(x, served))

        @torch.no_grad()
        def run() -> torch.Tensor:
            # A prompt's cache is empty on the host too; a step's length is a tensor.
            if served.seen == 0:
                cache.reset()
            else:
                cache.crop(-1)
            return _last_logits(model, x, cache)

        return run

    @baseline(binds=True)
    def eager(self, x: torch.Tensor, served: Served) -> Callable[[], Any]:
        """The model as transformers makes it: SDPA, and a cache that grows by being copied.

        While it is captured in a graph, transformers makes a mask and repeats key heads for it, as it does when it is
        compiled: its replays do more than its calls.
        """

        @torch.no_grad()
        def run() -> torch.Tensor:
            return _last_logits(served.model, x, _dynamic_cache(served.model.config, served.past))

        return run

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, x: torch.Tensor, served: Served) -> Callable[[], Any]:
        """The same through torch.compile; a step has transformers' StaticCache, as it wants to be compiled with."""
        model = served.model
        step = compiled(_last_logits, x, *model.parameters())
        cache = served.once("static", lambda: _static_cache(x, served)) if served.seen else None

        @torch.no_grad()
        def run() -> torch.Tensor:
            if cache is None:
                return step(model, x, _dynamic_cache(model.config, served.past))
            for layer in cache.layers:
                layer.cumulative_length.fill_(served.seen)
            return step(model, x, cache)

        return run


def _last_logits(model: Any, x: torch.Tensor, cache: Any) -> torch.Tensor:
    """(batch, 1, vocabulary), of the last position."""
    logits: torch.Tensor = model(inputs_embeds=x, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
    return logits


def _dynamic_cache(config: Any, past: torch.Tensor) -> Any:
    """transformers' default cache, as it is after `past`: what is in it is copied when new keys come."""
    from transformers import DynamicCache

    cache = DynamicCache(config=config)
    if past.shape[4]:
        layers: list[Any] = cache.layers
        for layer, (keys, values) in zip(layers, past, strict=True):
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
    return cache


def _static_cache(x: torch.Tensor, served: Served) -> Any:
    from transformers import StaticCache

    cache = StaticCache(served.model.config, served.seen + x.shape[1])
    for index, (keys, values) in enumerate(served.past):
        cache.update(keys, values, index)
    return cache


def _with_our_kernels(x: torch.Tensor, served: Served) -> tuple[Any, Any]:
    """A model of the same parameters with the commit's kernels, and its cache, whose room stays from call to call."""
    warpwatch_operator("decode_attention")  # raises UnavailableError where the kernels are not built
    try:
        ours = importlib.import_module("warpwatch.kernels.huggingface")
        cache_type = ours.GraphCache if served.seen else ours.ContiguousCache
    except (ModuleNotFoundError, AttributeError) as missing:
        raise UnavailableError(f"this commit has no such warpwatch.kernels.huggingface ({missing})") from missing
    model = _sharing_weights(served.model)
    ours.replace_norms(model)
    if model.config.model_type == "llama":
        ours.replace_rotary(model)
    if hasattr(ours, "replace_mlp"):
        ours.replace_mlp(model)
    if hasattr(ours, "replace_linear"):
        ours.replace_linear(model)
    model.set_attn_implementation(ours.register_attention())
    cache = cache_type(model.config, served.seen + x.shape[1])
    if served.seen:
        for index, (keys, values) in enumerate(served.past):
            cache.update(keys, values, index)
        with torch.no_grad():
            _last_logits(model, x, cache)  # a step to take back
    return model, cache


def _sharing_weights(model: Any) -> Any:
    """A copy to change, of the same parameters."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
