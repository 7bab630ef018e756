"""Greedy generation by replaying one CUDA graph per step."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from .attention import ATTENTION
from .cache import GraphCache


class GreedyDecoding:
    """Greedy decoding of a causal decoder, with one graph launch per step on a GPU.

    The model must use our attention, which reads the cache's length from the device; everything else stays as it is.
    Prompts have no padding. On a GPU, the first step after a prompt of a new batch size is captured; the model's
    forward pass must not synchronise with the GPU. On a CPU the same steps are called directly.
    Raises ValueError for a model with another attention.
    """

    def __init__(self, model: PreTrainedModel, max_length: int) -> None:
        if model.config._attn_implementation != ATTENTION:
            raise ValueError(
                f"GreedyDecoding: the model's attention is {model.config._attn_implementation!r}; "
                "call model.set_attn_implementation(register_attention())"
            )
        self._model = model
        self._max_length = max_length
        self._batch = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    @torch.no_grad()
    def generate(self, input_ids: torch.Tensor, new_tokens: int) -> torch.Tensor:
        """Generate `new_tokens` tokens (batch, new_tokens) after input_ids (batch, seq), which have no padding.

        Raises ValueError if they do not fit into max_length.
        """
        batch, seq = input_ids.shape
        if new_tokens < 1 or seq + new_tokens - 1 > self._max_length:
            raise ValueError(
                f"GreedyDecoding: {seq} tokens and {new_tokens} new ones, of which the last is not remembered, do not "
                f"fit into {self._max_length} positions"
            )
        if batch != self._batch:
            self._begin(input_ids)
        self._cache.reset()
        self._token.copy_(self._next(input_ids))
        tokens = [self._token.clone()]
        for _ in range(new_tokens - 1):
            self._step()
            tokens.append(self._token.clone())
        return torch.cat(tokens, dim=1)

    def _begin(self, input_ids: torch.Tensor) -> None:
        """Allocate cache and token for this batch size; a graph captured for another size would write elsewhere."""
        self._batch, self._graph = input_ids.shape[0], None
        self._cache = GraphCache(self._model.config, self._max_length)
        self._token = input_ids[:, -1:].clone()

    def _next(self, ids: torch.Tensor) -> torch.Tensor:
        # As vectors: GPT-2 checks its ids for padding, on the host.
        vectors = self._model.get_input_embeddings()(ids)
        logits = self._model(
            inputs_embeds=vectors, past_key_values=self._cache, use_cache=True, logits_to_keep=1
        ).logits
        return logits[:, -1].argmax(dim=-1, keepdim=True)

    def _advance(self) -> None:
        self._token.copy_(self._next(self._token))

    def _step(self) -> None:
        """Generate one more token, in place."""
        if self._token.device.type != "cuda":
            self._advance()
            return
        if self._graph is None:
            self._graph = self._captured()
        self._graph.replay()

    def _captured(self) -> torch.cuda.CUDAGraph:
        """Capture a step as a graph; token and cache keep their values."""
        token = self._token.clone()
        stream = torch.cuda.Stream(self._token.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._advance()  # warm-up: libraries initialise what a capture forbids
        torch.cuda.current_stream().wait_stream(stream)
        self._token.copy_(token)
        self._cache.crop(-1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._advance()
        return graph
