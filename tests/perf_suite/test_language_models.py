"""The language models: what is published of them, what transformers makes of them, and where the catalogue has them."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from perf_suite.language_models import GPT_2, LANGUAGE_MODELS, LLAMA_2_7B, LLAMA_2_13B, LLAMA_2_70B, LLAMA_3_8B

# As counted by the publishers' own checkpoints.
PARAMETERS = {
    GPT_2: 124_439_808,
    LLAMA_2_7B: 6_738_415_616,
    LLAMA_2_13B: 13_015_864_320,
    LLAMA_2_70B: 68_976_648_192,
    LLAMA_3_8B: 8_030_261_248,
}


@pytest.mark.parametrize("model", LANGUAGE_MODELS, ids=lambda model: model.name)
def test_a_model_has_as_many_parameters_as_the_one_published(model):
    assert model.parameters == PARAMETERS[model]


@pytest.mark.parametrize("model", LANGUAGE_MODELS, ids=lambda model: model.name)
def test_transformers_makes_the_same_of_it(model):
    pytest.importorskip("transformers", reason="transformers is not installed (extra: models)")
    from perf_suite.transformers_models import configuration, random_model

    made = random_model(model, dtype=torch.float16, device="meta", seed=0)
    assert sum(parameter.numel() for parameter in made.parameters()) == model.parameters
    held = {
        (weight.shape[1], weight.shape[0]) if "llama" in type(made).__name__.lower() else tuple(weight.shape)
        for name, weight in made.named_parameters()
        if weight.dim() == 2 and ("layers.0" in name or "h.0" in name)
    }
    fused = {(shape.depth, shape.outputs) for shape in model.linears if shape.name != "qkv"}
    assert fused <= held
    if model.rope_theta is not None:
        assert configuration(model).rope_parameters["rope_theta"] == model.rope_theta


def test_random_weights_are_the_seeds():
    pytest.importorskip("transformers", reason="transformers is not installed (extra: models)")
    from perf_suite.transformers_models import random_model

    small = replace(GPT_2, vocabulary=50, context=16)

    def first_weight(seed):
        return next(random_model(small, dtype=torch.float32, device="cpu", seed=seed, layers=1).parameters())

    torch.manual_seed(3)
    before = torch.get_rng_state()
    assert torch.equal(first_weight(1), first_weight(1))
    assert not torch.equal(first_weight(1), first_weight(2))
    assert torch.equal(torch.get_rng_state(), before)


def test_an_unknown_layer_is_reported_with_the_known_ones():
    with pytest.raises(
        KeyError, match="Llama 2 7B has no linear layer 'out'; it has qkv, attention_out, gate, up, down"
    ):
        LLAMA_2_7B.linear("out")


def test_the_sizes_are_read_without_torch():
    program = "import sys, perf_suite.language_models; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
