"""GPT-2 and Llama of transformers, random weights: with our kernels inside they generate the same tokens."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra: models)")

from perf_suite.benchmarks.flash_attention import flash_attention as reference  # noqa: E402
from warpwatch.kernels.huggingface import (  # noqa: E402
    ContiguousCache,
    GraphCache,
    register_attention,
    replace_linear,
    replace_mlp,
    replace_norms,
    replace_rotary,
)
from warpwatch.kernels.modules import Linear, QuantizedLinear, causal_attention, replace_linear_with_quantized  # noqa: E402

VOCABULARY = 199
NEW_TOKENS = 16
# Weights far larger than a model begins with, so that attention and positions decide which token comes next.
SPREAD = 0.2


def llama() -> transformers.PreTrainedModel:
    """Two layers, four query heads on two key heads."""
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=SPREAD,
        pad_token_id=0,
        eos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config)


def gpt2() -> transformers.PreTrainedModel:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=128,
        n_layer=2,
        n_head=2,
        n_positions=256,
        initializer_range=SPREAD,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
        # The head would be the embedding, and each token its own likeliest successor.
        tie_word_embeddings=False,
    )
    return transformers.GPT2LMHeadModel(config)


Maker = Callable[[], transformers.PreTrainedModel]
MODELS: dict[str, Maker] = {"llama": llama, "gpt2": gpt2}
BATCHES = {
    "one sequence": [0],
    "one token": [11],
    "padded on the left": [0, 4, 7, 4],
    "alike": [3, 3],
}


def on(model: transformers.PreTrainedModel, device: str, dtype: torch.dtype) -> transformers.PreTrainedModel:
    return model.to(device, dtype).eval()


def prompts(padding: list[int], device: str) -> dict[str, torch.Tensor]:
    """Prompts of 12 positions, the first ones of each padding."""
    ids = torch.randint(1, VOCABULARY, (len(padding), 12), generator=torch.Generator().manual_seed(7))
    tokens = torch.arange(12)[None, :] >= torch.tensor(padding)[:, None]
    if len(padding) == 1:  # no padding to speak of: a shorter prompt
        ids, tokens = ids[:, padding[0] :], tokens[:, padding[0] :]
    return {"input_ids": (ids * tokens).to(device), "attention_mask": tokens.long().to(device)}


def greedy(
    model: transformers.PreTrainedModel, prompt: dict[str, torch.Tensor], **options: object
) -> tuple[torch.Tensor, torch.Tensor]:
    """(batch, NEW_TOKENS) tokens, and their logits (batch, NEW_TOKENS, vocabulary)."""
    out = model.generate(
        **prompt,
        max_new_tokens=NEW_TOKENS,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
        **options,
    )
    return out.sequences[:, -NEW_TOKENS:], torch.stack(out.logits, dim=1).float()


def assert_same_tokens(
    ours: torch.Tensor, theirs: torch.Tensor, their_logits: torch.Tensor, dtype: torch.dtype
) -> None:
    """The same tokens, or up to one for which the unmodified model had two candidates within its own rounding.

    Of a few layers some roundings of the dtype add up; four are allowed.
    """
    rounding = 4 * torch.finfo(dtype).eps * their_logits.abs().amax()
    compared = 0
    for our_row, their_row, logits in zip(ours, theirs, their_logits, strict=True):
        differ = (our_row != their_row).nonzero()
        same = int(differ[0]) if len(differ) else len(their_row)
        compared += same
        if same < len(their_row):
            best = logits[same].topk(2).values
            assert best[0] - best[1] < rounding, f"another token at step {same}"
    assert compared >= theirs.numel() / 4, f"only {compared} tokens were the same before the models went apart"


DTYPES = [torch.float32, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", MODELS)
def test_generates_the_same_tokens_with_our_attention_and_then_our_cache(
    name: str, batch: str, dtype: torch.dtype, device: str
) -> None:
    model = on(MODELS[name](), device, dtype)
    prompt = prompts(BATCHES[batch], device)
    theirs, logits = greedy(model, prompt)
    assert len(set(theirs.flatten().tolist())) > NEW_TOKENS // 3, "tokens that repeat prove little"
    model.set_attn_implementation(register_attention())
    assert_same_tokens(greedy(model, prompt)[0], theirs, logits, dtype)
    cache = ContiguousCache(model.config, 64)
    assert_same_tokens(greedy(model, prompt, past_key_values=cache)[0], theirs, logits, dtype)
    assert cache.get_seq_length() == prompt["input_ids"].shape[1] + NEW_TOKENS - 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("attention", ["sdpa", "eager", "warpwatch"])
@pytest.mark.parametrize("batch", BATCHES)
def test_generates_the_same_tokens_with_our_rope(batch: str, attention: str, dtype: torch.dtype, device: str) -> None:
    model = on(llama(), device, dtype)
    prompt = prompts(BATCHES[batch], device)
    theirs, logits = greedy(model, prompt)
    register_attention()
    model.set_attn_implementation(attention)
    assert replace_rotary(model) is model
    assert_same_tokens(greedy(model, prompt)[0], theirs, logits, dtype)
    cache = ContiguousCache(model.config, 64)
    assert_same_tokens(greedy(model, prompt, past_key_values=cache)[0], theirs, logits, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_generates_the_same_tokens_with_our_norms(name: str, dtype: torch.dtype, device: str) -> None:
    model = on(MODELS[name](), device, dtype)
    prompt = prompts([0, 4], device)
    theirs, logits = greedy(model, prompt)
    assert replace_norms(model) is model
    left = [type(module) for path, module in model.named_modules() if path.endswith(("norm", "ln_1", "ln_2", "ln_f"))]
    assert len(left) == 5
    assert len(set(left)) == 1
    assert set(left).isdisjoint({torch.nn.LayerNorm, transformers.models.llama.modeling_llama.LlamaRMSNorm})
    assert_same_tokens(greedy(model, prompt)[0], theirs, logits, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_generates_the_same_tokens_with_our_mlp(name: str, dtype: torch.dtype, device: str) -> None:
    model = on(MODELS[name](), device, dtype)
    prompt = prompts([0, 4], device)
    theirs, logits = greedy(model, prompt)
    assert replace_mlp(model) is model
    kinds = {type(module).__name__ for path, module in model.named_modules() if path.endswith(("mlp", "c_fc"))}
    assert kinds == ({"_GatedMLP"} if name == "llama" else {"GPT2MLP", "LinearGELU"})
    assert_same_tokens(greedy(model, prompt)[0], theirs, logits, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_generates_the_same_tokens_with_our_linear_layers(name: str, dtype: torch.dtype, device: str) -> None:
    model = on(MODELS[name](), device, dtype)
    prompt = prompts([0, 4], device)  # steps of two rows, which Hopper's kernel for few rows takes
    theirs, logits = greedy(model, prompt)
    assert replace_linear(replace_mlp(model)) is model
    kinds = {type(module).__name__ for path, module in model.named_modules() if hasattr(module, "weight")}
    assert kinds & {"Linear", "Conv1D", "LinearGELU"} == ({"Linear"} if name == "llama" else {"Linear", "LinearGELU"})
    assert all(type(module) is Linear for module in model.modules() if type(module).__name__ == "Linear")
    assert_same_tokens(greedy(model, prompt)[0], theirs, logits, dtype)
    with pytest.raises(ValueError, match=r"no nn\.Linear and no Conv1D to replace"):
        replace_linear(model)


def test_linear_layers_share_what_they_shared_and_may_be_quantized() -> None:
    model = on(gpt2(), "cpu", torch.float32)
    model.lm_head.weight = model.get_input_embeddings().weight
    first, second = model.transformer.h
    second.mlp.c_proj = first.mlp.c_proj
    prompt = prompts([0], "cpu")
    theirs, logits = greedy(model, prompt)
    replace_linear(model)
    assert model.lm_head.weight is model.get_input_embeddings().weight
    assert second.mlp.c_proj is first.mlp.c_proj
    assert_same_tokens(greedy(model, prompt)[0], theirs, logits, torch.float32)
    replace_linear_with_quantized(model, bits=8)
    kinds = {type(module) for path, module in model.named_modules() if path.endswith(("c_attn", "c_proj", "c_fc"))}
    assert kinds == {QuantizedLinear}


@pytest.mark.parametrize("name", MODELS)
def test_an_mlp_of_quantized_layers_keeps_them(name: str) -> None:
    model = replace_linear_with_quantized(on(MODELS[name](), "cpu", torch.float32), bits=4, group_size=64)
    prompt = prompts([0], "cpu")
    theirs, logits = greedy(model, prompt)
    if name == "gpt2":
        with pytest.raises(ValueError, match="no GPT2MLP with gelu_new to replace"):
            replace_mlp(model)
        return
    assert_same_tokens(greedy(replace_mlp(model), prompt)[0], theirs, logits, torch.float32)


def test_is_no_further_from_the_float32_model_than_the_unmodified_one(device: str) -> None:
    exact = on(llama(), device, torch.float32)
    theirs = on(copy.deepcopy(exact), device, torch.float16)
    exact.load_state_dict(theirs.state_dict())  # the same, rounded weights
    ours = replace_mlp(replace_norms(replace_rotary(copy.deepcopy(theirs))))
    ours.set_attn_implementation(register_attention())
    ids = torch.randint(1, VOCABULARY, (2, 100), device=device)
    with torch.no_grad():
        expected, their_logits, our_logits = (model(ids).logits.float() for model in (exact, theirs, ours))
    assert (our_logits - expected).norm() <= 1.1 * (their_logits - expected).norm()


def test_another_attention_gives_other_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself: attention that forgets its last key is seen."""

    def forgetful(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float, window: int | None = None
    ) -> torch.Tensor:
        assert window is None
        return reference(q, k, torch.cat((v[:, :, :-1], v[:, :, :1]), dim=2), causal, scale).to(q.dtype)

    model = on(llama(), "cpu", torch.float32)
    prompt = prompts([0], "cpu")
    theirs, logits = greedy(model, prompt)
    model.set_attn_implementation(register_attention())
    monkeypatch.setattr(causal_attention, "flash_attention", forgetful)  # the prompt's; each step's is the next
    assert not torch.equal(greedy(model, prompt)[0][:, 0], theirs[:, 0])
    monkeypatch.undo()
    monkeypatch.setattr(causal_attention, "decode_attention", lambda q, k, v, scale: forgetful(q, k, v, True, scale))
    ours, _ = greedy(model, prompt)
    assert torch.equal(ours[:, 0], theirs[:, 0])
    with pytest.raises(AssertionError, match="another token at step"):
        assert_same_tokens(ours, theirs, logits, torch.float32)


def test_a_batch_padded_on_the_right_is_read_the_same(device: str) -> None:
    model = on(llama(), device, torch.float32)
    ids = torch.randint(1, VOCABULARY, (3, 10), device=device)
    tokens = torch.arange(10, device=device)[None, :] < torch.tensor([[6], [9], [6]], device=device)
    with torch.no_grad():
        theirs = model(ids, attention_mask=tokens).logits
        model.set_attn_implementation(register_attention())
        ours = model(ids, attention_mask=tokens).logits
    torch.testing.assert_close(ours[tokens], theirs[tokens], rtol=1e-4, atol=1e-4)
    assert bool(ours.isfinite().all())


@pytest.mark.parametrize("name", MODELS)
def test_a_quantized_model_runs_on_all_of_our_kernels(name: str, device: str) -> None:
    dtype = torch.float16 if device == "cuda" else torch.float32
    model = replace_linear_with_quantized(on(MODELS[name](), device, dtype), bits=4, group_size=64)
    kinds = {type(module) for path, module in model.named_modules() if path.endswith(("_proj", "c_attn", "c_fc"))}
    assert kinds == {QuantizedLinear}
    # The same model in plain PyTorch, with the weights that the quantized ones stand for.
    plain = on(MODELS[name](), device, dtype)
    plain.load_state_dict(model.state_dict(), strict=False)
    for path, module in model.named_modules():
        if isinstance(module, QuantizedLinear):
            held = module.dequantize()
            plain.get_submodule(path).weight.data.copy_(held.t() if name == "gpt2" else held)  # Conv1D is transposed
    prompt = prompts([0, 4], device)
    theirs, logits = greedy(plain, prompt)
    replace_norms(model if name == "gpt2" else replace_rotary(model))
    model.set_attn_implementation(register_attention())
    ours, _ = greedy(model, prompt, past_key_values=ContiguousCache(model.config, 64))
    assert_same_tokens(ours, theirs, logits, dtype)


REFUSED: dict[str, Callable[[transformers.PreTrainedModel, torch.Tensor], object]] = {
    "the tokens of a sequence must stand together": (
        lambda model, ids: model(ids, attention_mask=torch.tensor([[1, 1, 0, 0, 1, 1]]))
    ),
    "attention_mask must cover all positions, those in the cache too, with shape [1, 6], got [1, 4]": (
        lambda model, ids: model(ids, attention_mask=torch.tensor([[0, 1, 1, 1]]))
    ),
    "a 4-dimensional attention_mask not implemented": (
        lambda model, ids: model(ids, attention_mask=torch.ones(1, 1, 6, 6, dtype=torch.bool))
    ),
    "only the plain causal mask is implemented": (
        lambda model, ids: model(ids, position_ids=torch.tensor([[0, 1, 2, 0, 1, 2]]), use_cache=False)
    ),
    "neither padding nor a sliding window is implemented with a cache that returns": (
        lambda model, ids: model(
            ids, attention_mask=torch.tensor([[0, 1, 1, 1, 1, 1]]), past_key_values=GraphCache(model.config, 9)
        )
    ),
    "crop takes the negative number of positions to forget, got 2": (
        lambda model, ids: GraphCache(model.config, 9).crop(2)
    ),
    "rope: its kernel has no gradient; train without replace_rotary": (
        lambda model, ids: model(ids, use_cache=False).logits.sum().backward()
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_says_what_it_does_not_do(sentence: str) -> None:
    model = on(llama(), "cpu", torch.float32)
    model.set_attn_implementation(register_attention())
    if "rope" in sentence:
        replace_rotary(model)
        model.set_attn_implementation("sdpa")
    with pytest.raises((NotImplementedError, ValueError, RuntimeError)) as refusal:
        REFUSED[sentence](model, torch.randint(1, VOCABULARY, (1, 6)))
    assert sentence in str(refusal.value)


def mistral() -> transformers.PreTrainedModel:
    """One layer whose queries see 5 keys."""
    config = transformers.MistralConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        sliding_window=5,
        initializer_range=SPREAD,
        pad_token_id=0,
        eos_token_id=None,
    )
    return transformers.MistralForCausalLM(config)


@pytest.mark.parametrize("batch", BATCHES)
def test_a_sliding_window_gives_the_same_tokens(batch: str, device: str) -> None:
    dtype = torch.float16 if device == "cuda" else torch.float32
    model = on(mistral(), device, dtype)
    prompt = prompts(BATCHES[batch], device)
    theirs, logits = greedy(model, prompt)
    model.set_attn_implementation(register_attention())
    ours, _ = greedy(model, prompt)
    assert_same_tokens(ours, theirs, logits, dtype)


@pytest.mark.parametrize("make", [llama, gpt2, mistral])
@pytest.mark.parametrize("padding", [0, 3])
def test_trains_as_with_sdpa(padding: int, make: Maker) -> None:
    model = on(make(), "cpu", torch.float32)
    ids = torch.randint(1, VOCABULARY, (2, 12))
    mask = torch.ones_like(ids)
    mask[0, :padding] = 0
    gradients = []
    for implementation in ("sdpa", register_attention()):
        model.set_attn_implementation(implementation)
        model.zero_grad()
        logits = model(ids, attention_mask=mask, use_cache=False).logits
        torch.logsumexp(logits[mask.bool()], dim=-1).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    for theirs, ours in zip(*gradients, strict=True):
        # fp32 throughout; what is off is the order of sums.
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4 * theirs.abs().max().item())


def test_layers_of_a_sliding_window_are_refused() -> None:
    with pytest.raises(
        NotImplementedError, match=r"only layers of full attention are implemented, got .*window of 4096"
    ):
        ContiguousCache(transformers.MistralConfig(sliding_window=4096), 64)


def test_a_model_without_what_is_to_be_replaced_is_refused() -> None:
    with pytest.raises(ValueError, match="the model has no LlamaAttention"):
        replace_rotary(gpt2())
    with pytest.raises(ValueError, match=r"the model has no LlamaRMSNorm and no nn.LayerNorm"):
        replace_norms(torch.nn.Linear(2, 2))


def test_dropout_is_refused_and_not_left_out() -> None:
    model = gpt2().train()
    model.set_attn_implementation(register_attention())
    with pytest.raises(NotImplementedError, match="dropout not implemented"):
        model(torch.randint(1, VOCABULARY, (1, 6)))
