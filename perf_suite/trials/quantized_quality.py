"""What quantized weights cost in quality: perplexity of a small language model, trained here on this repository's text.

    python -m perf_suite.trials.quantized_quality --out perf_suite/trials/quantized-quality.json

Minutes on one CPU core. The text is the sources and documents of one commit, as bytes; each tenth file is held out,
and perplexity is of a byte in those. Wants the extra `models`.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import io
import json
import math
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from warpwatch.kernels.modules import replace_linear_with_quantized

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

ROOT = Path(__file__).resolve().parents[2]
TEXT_COMMIT = "a8212b4cd5a8a7055c4e82021cb8caa4983f5c2a"  # so that the text stays the same
SUFFIXES = (".py", ".md", ".cpp", ".cu", ".h", ".cuh")
HELD_OUT_EVERY = 10
LONGEST_FILE = 20_000  # bytes: of a longer one only the beginning, so that none dominates what is held out


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The model and how it is trained. Features are multiples of 128, the larger group."""

    hidden: int = 128
    intermediate: int = 384
    layers: int = 3
    heads: int = 2
    context: int = 128  # bytes
    batch: int = 16
    steps: int = 800
    held_out_windows: int = 1024
    learning_rate: float = 3e-3
    seed: int = 20250


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Perplexity of one byte with the weights of all linear layers but the head held so.

    nats_lost is the mean loss of a byte over that of float32, of the same windows; its standard error is over windows,
    which are taken as independent.
    """

    weights: str
    weight_bits: float  # with its share of the scales, 16 bits each in 4-bit formats, as where x is 16-bit
    perplexity: float
    nats_lost: float
    nats_lost_error: float


def text_of(root: Path, commit: str) -> tuple[bytes, bytes]:
    """(to train on, held out): the sources and documents of a commit, in the order of their paths.

    Raises CalledProcessError where `root` is no git checkout that has the commit.
    """
    archive = subprocess.run(["git", "archive", "--format=tar", commit], cwd=root, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        members = sorted((m for m in files if m.isfile() and m.name.endswith(SUFFIXES)), key=lambda m: m.name)
        texts = [files.extractfile(member).read(LONGEST_FILE) for member in members]  # type: ignore[union-attr]
    last = HELD_OUT_EVERY - 1
    trained_on = b"".join(text for i, text in enumerate(texts) if i % HELD_OUT_EVERY != last)
    return trained_on, b"".join(texts[last::HELD_OUT_EVERY])


def train(setting: Setting, text: bytes, report: Callable[[str], None] = lambda _: None) -> LlamaForCausalLM:
    """A Llama of bytes, trained on random windows of the text by AdamW with a cosine schedule."""
    # Imported here: loading transformers takes seconds, also in processes that only collect tests.
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(setting.seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=256,
            hidden_size=setting.hidden,
            intermediate_size=setting.intermediate,
            num_hidden_layers=setting.layers,
            num_attention_heads=setting.heads,
            max_position_embeddings=setting.context,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    generator = torch.Generator().manual_seed(setting.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=setting.learning_rate, weight_decay=0.1)
    warm_up = max(setting.steps // 20, 1)

    def rate(step: int) -> float:
        rest = (step - warm_up) / max(setting.steps - warm_up, 1)
        return (step + 1) / warm_up if step < warm_up else 0.5 * (1 + math.cos(math.pi * rest))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    window = torch.arange(setting.context + 1)
    for step in range(setting.steps):
        begin = torch.randint(len(data) - setting.context, (setting.batch, 1), generator=generator)
        loss = _losses(model, data[begin + window]).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 25 == 24:
            report(f"step {step + 1} of {setting.steps}: {loss.item() / math.log(2):.3f} bits a byte")
    return model.eval()


def compare(model: nn.Module, setting: Setting, held_out: bytes) -> list[Quality]:
    """float32, then each quantization of the linear layers that the kernels have, then those that they may get."""
    exact = window_losses(model, setting, held_out)
    found = []

    def add(weights: str, weight_bits: float, losses: torch.Tensor) -> None:
        lost = losses - exact
        found.append(
            Quality(
                weights=weights,
                weight_bits=weight_bits,
                perplexity=losses.mean().exp().item(),
                nats_lost=lost.mean().item(),
                nats_lost_error=lost.std().item() / math.sqrt(len(lost)),
            )
        )

    add("float32", 32, exact)
    eight = replace_linear_with_quantized(copy.deepcopy(model), bits=8)
    add("int8, activations too", _weight_bits(model, 8, 32), window_losses(eight, setting, held_out))
    for group_size in (64, 128):
        four = replace_linear_with_quantized(copy.deepcopy(model), bits=4, group_size=group_size)
        bits = _weight_bits(model, 4, 16, group_size)
        add(f"int4 symmetric, group {group_size}", bits, window_losses(four, setting, held_out))
    for group_size in (64, 128):
        rounded = _with_zero_points(copy.deepcopy(model), group_size)
        bits = _weight_bits(model, 4, 16 + 4, group_size)
        add(f"int4 zero-point, group {group_size}, by PyTorch", bits, window_losses(rounded, setting, held_out))
    return found


@torch.no_grad()
def window_losses(model: nn.Module, setting: Setting, held_out: bytes) -> torch.Tensor:
    """Nats a byte in each of the held-out text's first windows, in float64; they do not overlap.

    Each byte is predicted from those before it in its window. Raises ValueError for a text of fewer than two windows.
    """
    data = torch.frombuffer(bytearray(held_out), dtype=torch.uint8).long()
    if len(data) <= 2 * setting.context:
        raise ValueError(f"the held-out text is {len(data)} bytes, less than two windows of {setting.context}")
    windows = data.unfold(0, setting.context + 1, setting.context)[: setting.held_out_windows]
    return torch.cat([_losses(model, part).double().mean(-1) for part in windows.split(setting.batch)])


def _weight_bits(model: nn.Module, bits: int, overhead_bits: int, group_size: int | None = None) -> float:
    """Bits a weight, those of each group's, or of each output's, scale and zero point with them."""
    weights = [layer.weight for layer in _linears(model)]
    groups = sum(weight.shape[0] * (1 if group_size is None else weight.shape[1] // group_size) for weight in weights)
    return bits + overhead_bits * groups / sum(weight.numel() for weight in weights)


def _linears(model: nn.Module) -> list[nn.Linear]:
    return [layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear) and name != "lm_head"]


def _losses(model: nn.Module, windows: torch.Tensor) -> torch.Tensor:
    """(windows, context) nats of each byte after the first."""
    logits = model(input_ids=windows[:, :-1], use_cache=False).logits
    return nn.functional.cross_entropy(logits.float().transpose(1, 2), windows[:, 1:], reduction="none")


@torch.no_grad()
def _with_zero_points(model: nn.Module, group_size: int) -> nn.Module:
    """Weights as 4 bits, a scale and a 4-bit zero point a group would hold them: scale * (q - zero), q in 0..15."""
    for layer in _linears(model):
        groups = layer.weight.unflatten(1, (-1, group_size))
        low = groups.amin(-1, keepdim=True).clamp(max=0)
        high = groups.amax(-1, keepdim=True).clamp(min=0)
        scale = ((high - low) / 15).clamp(min=torch.finfo(torch.float32).tiny)
        zero = (-low / scale).round()
        steps = ((groups / scale).round() + zero).clamp(0, 15)
        layer.weight.copy_((scale * (steps - zero)).flatten(1))
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the figures, as JSON")
    parser.add_argument("--model", type=Path, help="the trained weights: read if the file is there, else written")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # sums in one order, however many cores there are
    setting = Setting()
    trained_on, held_out = text_of(ROOT, TEXT_COMMIT)
    if arguments.model and arguments.model.exists():
        model = train(Setting(steps=0), trained_on)
        model.load_state_dict(torch.load(arguments.model))
    else:
        model = train(setting, trained_on, report=lambda line: print(line, flush=True))
        if arguments.model:
            torch.save(model.state_dict(), arguments.model)
    found = compare(model, setting, held_out)
    record = {
        "text_commit": TEXT_COMMIT,
        "text_sha256": hashlib.sha256(trained_on + held_out).hexdigest(),
        "text_bytes": {"trained_on": len(trained_on), "held_out": len(held_out)},
        "setting": asdict(setting),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "torch": torch.__version__,
        "quality": [asdict(each) for each in found],
    }
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    print(table(found))


def table(found: list[Quality]) -> str:
    """As it stands in trials/README.md."""
    rows = ["| weights | bits | perplexity of a byte | against float32 |", "|---|---|---|---|"]
    for each in found:
        change, error = math.expm1(each.nats_lost), each.nats_lost_error
        against = f"{change:+.2%} ± {error:.2%}" if each is not found[0] else ""
        rows.append(f"| {each.weights} | {each.weight_bits:.2f} | {each.perplexity:.4f} | {against} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
