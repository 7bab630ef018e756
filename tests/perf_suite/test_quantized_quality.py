"""The trial of quantized weights' quality: a tiny one run through, and the recorded one as the README shows it."""

import copy
import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from perf_suite.trials import quantized_quality
from perf_suite.trials.quantized_quality import Quality, Setting, compare, table, text_of, train, window_losses
from warpwatch.kernels.modules import QuantizedLinear, replace_linear_with_quantized

pytestmark = [
    pytest.mark.outside,  # needs the compiled kernels
    pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed (extra: models)"),
]

ROOT = Path(__file__).resolve().parents[2]
TRIALS = ROOT / "perf_suite/trials"
TINY = Setting(hidden=128, intermediate=128, layers=1, heads=2, context=32, batch=8, steps=30, held_out_windows=96)
TEXT = (ROOT / "LICENSE").read_bytes()  # a text that no commit changes: the losses depend on it


@pytest.fixture(scope="module")
def model():
    return train(TINY, TEXT)


def test_training_learns_and_is_the_seeds(model):
    untrained = window_losses(train(replace(TINY, steps=0), TEXT), TINY, TEXT).mean()
    assert window_losses(model, TINY, TEXT).mean() < untrained - 1
    again = train(replace(TINY, steps=3), TEXT).state_dict()
    for name, weight in train(replace(TINY, steps=3), TEXT).state_dict().items():
        assert torch.equal(weight, again[name])


def test_every_format_is_compared_and_eight_bits_move_the_losses_least(model):
    found = compare(model, TINY, TEXT)
    assert [each.weight_bits for each in found] == [32, 8.25, 4.25, 4.125, 4.3125, 4.15625]
    assert found[0].nats_lost == 0
    assert all(1 < each.perplexity < 256 for each in found)
    # What the windows lose and win cancels in the mean of so small a model; how far they are moved does not.
    assert 3 * found[1].nats_lost_error < min(each.nats_lost_error for each in found[2:])


@pytest.mark.parametrize("group_size", [64, 128])
def test_what_the_kernel_loses_is_what_the_weights_lose(model, group_size):
    quantized = replace_linear_with_quantized(copy.deepcopy(model), bits=4, group_size=group_size)
    plain = copy.deepcopy(model)
    for name, layer in quantized.named_modules():
        if isinstance(layer, QuantizedLinear):
            plain.get_submodule(name).weight.data.copy_(layer.dequantize())
    torch.testing.assert_close(
        window_losses(quantized, TINY, TEXT), window_losses(plain, TINY, TEXT), rtol=0, atol=1e-5
    )


def test_too_short_a_text_is_reported(model):
    with pytest.raises(ValueError, match="the held-out text is 64 bytes, less than two windows of 32"):
        window_losses(model, TINY, TEXT[:64])


def test_each_tenth_file_is_held_out(monkeypatch):
    monkeypatch.setattr(quantized_quality, "LONGEST_FILE", 10)
    trained_on, held_out = text_of(ROOT, "HEAD")
    assert 8 < len(trained_on) / len(held_out) < 10


def test_the_readme_shows_what_was_recorded():
    recorded = json.loads((TRIALS / "quantized-quality.json").read_text())
    assert table([Quality(**each) for each in recorded["quality"]]) in (TRIALS / "README.md").read_text()
    assert Setting(**recorded["setting"]) == Setting()
