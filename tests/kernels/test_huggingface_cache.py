"""Caches and captured steps for transformers' models: the tokens stay those of the unmodified model."""

from __future__ import annotations

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra: models)")

from warpwatch.kernels.huggingface import (  # noqa: E402
    ContiguousCache,
    GraphCache,
    GreedyDecoding,
    register_attention,
    replace_mlp,
    replace_norms,
    replace_rotary,
)

from .test_huggingface import (  # noqa: E402
    BATCHES,
    DTYPES,
    MODELS,
    NEW_TOKENS,
    VOCABULARY,
    assert_same_tokens,
    greedy,
    llama,
    on,
    prompts,
)


def test_beams_are_reordered_in_our_cache(device: str) -> None:
    model = on(llama(), device, torch.float32)
    prompt = prompts([0, 4], device)
    options = {"max_new_tokens": 8, "do_sample": False, "num_beams": 3}
    theirs = model.generate(**prompt, **options)
    model.set_attn_implementation(register_attention())
    ours = model.generate(**prompt, **options, past_key_values=ContiguousCache(model.config, 32))
    assert torch.equal(ours, theirs)


def test_a_cache_that_was_reset_or_cropped_continues_as_a_new_one(device: str) -> None:
    model = on(llama(), device, torch.float32)
    model.set_attn_implementation(register_attention())
    ids = torch.randint(1, VOCABULARY, (1, 12), device=device)
    cache = ContiguousCache(model.config, 20)
    with torch.no_grad():
        expected = model(ids, past_key_values=cache).logits
        cache.crop(-5)
        again = model(ids[:, 7:], past_key_values=cache).logits
        torch.testing.assert_close(again, expected[:, 7:], rtol=1e-4, atol=1e-4)
        cache.reset()
        assert torch.equal(model(ids, past_key_values=cache).logits, expected)
        with pytest.raises(RuntimeError, match="12 more positions do not fit: 12 of 20 are filled"):
            model(ids, past_key_values=cache)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batch", ["one sequence", "one token", "alike"])
@pytest.mark.parametrize("name", MODELS)
def test_captured_steps_generate_the_same_tokens(name: str, batch: str, dtype: torch.dtype, device: str) -> None:
    model = on(MODELS[name](), device, dtype)
    padding = [0] * len(BATCHES[batch]) if len(BATCHES[batch]) > 1 else BATCHES[batch]
    prompt = prompts(padding, device)
    theirs, logits = greedy(model, prompt)
    model.set_attn_implementation(register_attention())
    decoding = GreedyDecoding(model, 64)
    first = decoding.generate(prompt["input_ids"], NEW_TOKENS)
    assert_same_tokens(first, theirs, logits, dtype)
    assert torch.equal(
        decoding.generate(prompt["input_ids"], NEW_TOKENS), first
    )  # the graph again, on a cache begun anew
    assert (decoding._graph is not None) == (device == "cuda")


def test_captured_steps_of_a_model_with_all_of_our_kernels_generate_the_same_tokens(device: str) -> None:
    model = on(llama(), device, torch.float32)
    prompt = prompts([0, 0], device)
    theirs, logits = greedy(model, prompt)
    replace_mlp(replace_norms(replace_rotary(model))).set_attn_implementation(register_attention())
    assert_same_tokens(
        GreedyDecoding(model, 64).generate(prompt["input_ids"], NEW_TOKENS), theirs, logits, torch.float32
    )


@pytest.mark.parametrize("name", MODELS)
def test_caches_whose_length_is_a_tensor_serve_generate(name: str, device: str) -> None:
    model = on(MODELS[name](), device, torch.float32)
    prompt = prompts([0, 0], device)
    theirs, logits = greedy(model, prompt)
    model.set_attn_implementation(register_attention())
    for cache in (GraphCache(model.config, 64), transformers.StaticCache(model.config, 64)):
        ours, _ = greedy(model, prompt, past_key_values=cache, disable_compile=True)
        assert_same_tokens(ours, theirs, logits, torch.float32)
        assert int(cache.get_seq_length()) == prompt["input_ids"].shape[1] + NEW_TOKENS - 1


def test_beams_and_a_second_long_prompt_find_their_place_in_a_graph_cache(device: str) -> None:
    model = on(llama(), device, torch.float32)
    prompt = prompts([0, 0], device)
    options = {"max_new_tokens": 8, "do_sample": False, "num_beams": 3}
    theirs = model.generate(**prompt, **options)
    expected = model(prompt["input_ids"]).logits
    model.set_attn_implementation(register_attention())
    ours = model.generate(**prompt, **options, past_key_values=GraphCache(model.config, 32))
    assert torch.equal(ours, theirs)
    cache = GraphCache(model.config, 32)
    with torch.no_grad():
        model(prompt["input_ids"][:, :2], past_key_values=cache)
        rest = model(prompt["input_ids"][:, 2:], past_key_values=cache).logits  # ten tokens: flash_attention
        cache.crop(-3)
        again = model(prompt["input_ids"][:, 9:], past_key_values=cache).logits
    torch.testing.assert_close(rest, expected[:, 2:], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(again, expected[:, 9:], rtol=1e-4, atol=1e-4)


def test_errors_of_greedy_decoding_state_what_it_requires() -> None:
    model = on(llama(), "cpu", torch.float32)
    with pytest.raises(ValueError, match=r"attention is 'sdpa'; call model.set_attn_implementation"):
        GreedyDecoding(model, 64)
    model.set_attn_implementation(register_attention())
    with pytest.raises(ValueError, match=r"12 tokens and 6 new ones, .* do not fit into 16 positions"):
        GreedyDecoding(model, 16).generate(prompts([0], "cpu")["input_ids"], 6)
