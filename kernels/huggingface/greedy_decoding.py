"""Greedy generation whose steps are replays of one CUDA graph."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from .attention import ATTENTION
from .cache import GraphCache


class GreedyDecoding:
    """The most likely continuation by a causal decoder, with one launch a step on a GPU.

    The model's attention must be ours, since it reads the cache's length from the device; everything else in it is left
    as it is. Prompts have no padding. On a GPU the first step after a prompt of a new batch size is captured, and needs
    nothing that waits for the GPU in the model's forward pass. On a CPU the same steps are called.
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
        """The next `new_tokens` tokens (batch, new_tokens) after input_ids (batch, seq), which hold no padding.

        Raises ValueError where they do not fit into max_length.
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
        """A cache and a token for a batch of this size; the graph of another one would write elsewhere."""
        self._batch, self._graph = input_ids.shape[0], None
        self._cache = GraphCache(self._model.config, self._max_length)
        self._token = input_ids[:, -1:].clone()

    def _next(self, ids: torch.Tensor) -> torch.Tensor:
        # Given as vectors, since GPT-2 looks through ids for padding, on the host.
        vectors = self._model.get_input_embeddings()(ids)
        logits = self._model(
            inputs_embeds=vectors, past_key_values=self._cache, use_cache=True, logits_to_keep=1
        ).logits
        return logits[:, -1].argmax(dim=-1, keepdim=True)

    def _advance(self) -> None:
        self._token.copy_(self._next(self._token))

    def _step(self) -> None:
        """One token more, in place."""
        if self._token.device.type != "cuda":
            self._advance()
            return
        if self._graph is None:
            self._graph = self._captured()
        self._graph.replay()

    def _captured(self) -> torch.cuda.CUDAGraph:
        """A step as a graph, with token and cache as they were."""
        token = self._token.clone()
        stream = torch.cuda.Stream(self._token.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._advance()  # libraries make ready what a capture forbids
        torch.cuda.current_stream().wait_stream(stream)
        self._token.copy_(token)
        self._cache.crop(-1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._advance()
        return graph
