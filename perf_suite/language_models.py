"""The language models whose shapes the catalogue measures, as data. Importing it needs neither torch nor a kernel.

It is here and not next to the kernels because asv carries the catalogue over commits that have no such file.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Architecture(Enum):
    """What a layer is made of, by the name that transformers gives it."""

    GPT2 = "gpt2"  # layer norms, learned positions, biases, two matrices around a GELU, the embedding is the head too
    LLAMA = "llama"  # RMS norms, rotary positions, no biases, SwiGLU, a head of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearShape:
    """A linear layer's weight, (outputs, depth)."""

    name: str
    depth: int
    outputs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """A decoder's sizes: the fields of its published config.json."""

    name: str
    source: str  # the repository on huggingface.co that publishes the config.json
    architecture: Architecture
    hidden: int  # hidden_size; n_embd
    intermediate: int  # intermediate_size; n_inner, four times n_embd where that is null
    layers: int  # num_hidden_layers; n_layer
    heads: int  # num_attention_heads; n_head
    heads_kv: int  # num_key_value_heads
    vocabulary: int  # vocab_size
    context: int  # max_position_embeddings; n_positions
    norm_epsilon: float  # rms_norm_eps; layer_norm_epsilon
    rope_theta: float | None  # None: positions are learned

    @property
    def head_dim(self) -> int:
        """Elements of one head."""
        return self.hidden // self.heads

    @property
    def attention_heads(self) -> dict[str, Any]:
        """heads, heads_kv and head_dim, as the workloads of attention take them."""
        return {"heads": self.heads, "heads_kv": self.heads_kv, "head_dim": self.head_dim}

    @property
    def linears(self) -> tuple[LinearShape, ...]:
        """The linear layers of one layer of the model: q, k and v in one, as they are served, then as they follow."""
        qkv = (self.heads + 2 * self.heads_kv) * self.head_dim
        mlp = ("up",) if self.architecture is Architecture.GPT2 else ("gate", "up")
        return (
            LinearShape(name="qkv", depth=self.hidden, outputs=qkv),
            LinearShape(name="attention_out", depth=self.hidden, outputs=self.hidden),
            *(LinearShape(name=name, depth=self.hidden, outputs=self.intermediate) for name in mlp),
            LinearShape(name="down", depth=self.intermediate, outputs=self.hidden),
        )

    def linear(self, name: str) -> LinearShape:
        """One of them. Raises KeyError with the names there are."""
        for shape in self.linears:
            if shape.name == name:
                return shape
        raise KeyError(f"{self.name} has no linear layer {name!r}; it has {', '.join(s.name for s in self.linears)}")

    @property
    def parameters(self) -> int:
        """Trained numbers in the whole model."""
        weights = sum(shape.depth * shape.outputs for shape in self.linears)
        if self.architecture is Architecture.LLAMA:
            per_layer = weights + 2 * self.hidden
            return self.layers * per_layer + 2 * self.vocabulary * self.hidden + self.hidden
        biases = sum(shape.outputs for shape in self.linears)
        per_layer = weights + biases + 4 * self.hidden
        return self.layers * per_layer + (self.vocabulary + self.context + 2) * self.hidden


def _llama(
    name: str, source: str, *, hidden: int, intermediate: int, layers: int, heads: int, heads_kv: int, **newer: int
) -> LanguageModel:
    return LanguageModel(
        name=name,
        source=source,
        architecture=Architecture.LLAMA,
        hidden=hidden,
        intermediate=intermediate,
        layers=layers,
        heads=heads,
        heads_kv=heads_kv,
        vocabulary=newer.get("vocabulary", 32000),
        context=newer.get("context", 4096),
        norm_epsilon=1e-5,
        rope_theta=float(newer.get("rope_theta", 10000)),
    )


GPT_2 = LanguageModel(
    name="GPT-2 124M",
    source="openai-community/gpt2",
    architecture=Architecture.GPT2,
    hidden=768,
    intermediate=3072,
    layers=12,
    heads=12,
    heads_kv=12,
    vocabulary=50257,
    context=1024,
    norm_epsilon=1e-5,
    rope_theta=None,
)
LLAMA_2_7B = _llama(
    "Llama 2 7B", "meta-llama/Llama-2-7b-hf", hidden=4096, intermediate=11008, layers=32, heads=32, heads_kv=32
)
LLAMA_2_13B = _llama(
    "Llama 2 13B", "meta-llama/Llama-2-13b-hf", hidden=5120, intermediate=13824, layers=40, heads=40, heads_kv=40
)
LLAMA_2_70B = _llama(
    "Llama 2 70B", "meta-llama/Llama-2-70b-hf", hidden=8192, intermediate=28672, layers=80, heads=64, heads_kv=8
)
LLAMA_3_8B = _llama(
    "Llama 3 8B",
    "meta-llama/Meta-Llama-3-8B",
    hidden=4096,
    intermediate=14336,
    layers=32,
    heads=32,
    heads_kv=8,
    vocabulary=128256,
    context=8192,
    rope_theta=500000,
)
LANGUAGE_MODELS = (GPT_2, LLAMA_2_7B, LLAMA_2_13B, LLAMA_2_70B, LLAMA_3_8B)
