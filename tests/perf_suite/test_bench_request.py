"""Requests of a one-off benchmark, and the errors of invalid ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from perf_suite.catalogue import BENCHMARKS, OPERATORS, workloads_of
from warpbench.one_off.ad_hoc import BadRequestError, ad_hoc_workload, options
from warpbench.one_off.one_off import OneOff

from .warpbench_command import run_warpbench

ROOT = Path(__file__).resolve().parents[2]


def bench(*arguments):
    return run_warpbench("run", *arguments, folder=ROOT)


ANY_SHAPE = [operator for operator in OPERATORS if operator != "control"]


@pytest.mark.parametrize("operator", ANY_SHAPE)
def test_the_operators_options_can_make_every_row_of_its_catalogue(operator):
    """A row's name says its shape; built of the options that it says, it is the catalogue's row."""
    names = {option.name for option in options(BENCHMARKS[operator])}
    letters = {
        "b": ("batch",),
        "bias": ("biases",),
        "c": ("cols",),
        "capacity": ("capacity",),
        "d": ("head_dim",),
        "e": ("hidden",),
        "f": ("intermediate",),
        "g": ("group_size",),
        "h": ("heads",),
        "i": ("inner",),
        "k": ("depth",),
        "kv": ("heads_kv",),
        "l": ("layers",),
        "m": ("rows",),
        "n": ("outputs", "elements", "tokens"),
        "o": ("outer",),
        "page": ("page_size",),
        "r": ("rows", "reduced"),
        "v": ("vocabulary",),
        "window": ("window",),
    }
    for row in workloads_of(operator):
        device, dtype, *parts = row.name.split("-")
        shape = {}
        for part in parts:
            letter, figures = part.rstrip("0123456789x"), part.lstrip("abcdefghijklmnopqrstuvwxyz")
            if part in names:
                shape[part] = True
            elif part[0] == "s" and "to" in figures:
                shape |= dict(zip(("shortest", "longest"), map(int, figures.split("to")), strict=True))
            elif letter == "s":
                shape |= dict(zip(("seq_len", "seq_len_kv"), map(int, figures.split("x")), strict=False))
            elif figures:
                (option,) = names.intersection(letters[letter])
                shape[option] = int(figures)
            elif part not in ("full", "llama"):
                shape[part] = True
        assert shape.keys() <= names
        made = ad_hoc_workload(BENCHMARKS[operator], device, dtype, **shape)
        assert (made.name, made.parameters, made.cost) == (row.name, row.parameters, row.cost)


def test_the_issues_command_is_a_complete_request():
    OneOff(BENCHMARKS["flash_attention"], batch=32, seq_len=1024)
    workload = ad_hoc_workload(BENCHMARKS["flash_attention"], "cuda", batch=32, seq_len=1024)
    assert workload.name == "cuda-fp16-b32-h32-s1024-d128-full"


@pytest.mark.parametrize(
    ("request_of", "answer"),
    [
        ({"operator": "control", "rows": 8}, "control has its cases alone"),
        ({"operator": "rope", "heads": 8}, "rope needs seq_len"),
        ({"operator": "int4_linear", "rows": 8}, "int4_linear needs depth and outputs"),
        ({"operator": "rope", "cases": ["cpu-fp32"]}, r"rope has no case 'cpu-fp32'.*; it has cuda-fp16-b8"),
        ({"operator": "rope", "cases": ["cpu-fp32-b1-h8-s256-d128"], "seq_len": 8}, "give either cases or a shape"),
        ({"operator": "rope", "seqlen": 8}, r"rope has no option 'seqlen' \(did you mean 'seq_len'\?\); it has batch"),
        ({"operator": "rope", "seq_len": 0}, "seq_len must be a whole number of at least 1, got 0"),
        ({"operator": "rope", "seq_len": 8.0}, "seq_len must be a whole number of at least 1, got 8.0"),
        ({"operator": "rope", "seq_len": True}, "seq_len must be a whole number of at least 1, got True"),
        ({"operator": "rope", "seq_len": 8, "interleaved": 1}, "interleaved must be true or false, got 1"),
        ({"operator": "rope", "seq_len": 8, "head_dim": 7}, r"rope: head_dim \(7\) must be even"),
        ({"operator": "rope", "seq_len": 8, "dtype": "fp8"}, "no dtype 'fp8'; there are fp64, fp32"),
        ({"operator": "rope", "seq_len": 8, "device": "tpu"}, "no device 'tpu'; there are cuda and cpu"),
        (
            {"operator": "rope", "seq_len": 8, "metrics": ["heat"]},
            "no metric 'heat'; there are warm_latency, steady_latency, energy",
        ),
        (
            {"operator": "rope", "seq_len": 8, "implementations": ["tritn"]},
            r"rope has no implementation 'tritn' \(did you mean 'triton'\?\); it has warpwatch, triton, eager",
        ),
        (
            {"operator": "flash_attention", "seq_len": 8, "heads": 8, "heads_kv": 3},
            r"heads \(8\) must be a multiple of heads_kv \(3\)",
        ),
        (
            {"operator": "int4_linear", "depth": 100, "outputs": 8},
            r"depth \(100\) must be a multiple of the group size",
        ),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_answered_with_what_there_is(request_of, answer):
    with pytest.raises(BadRequestError, match=answer):
        OneOff(BENCHMARKS[request_of["operator"]], **{k: v for k, v in request_of.items() if k != "operator"})


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["flash_atention"], "no operator 'flash_atention' (did you mean 'flash_attention'?); there are"),
        (["rope", "--heads", "8"], "rope needs seq_len"),
        (["rope", "--seq-len", "8", "--interleaved", "--head-dim", "3"], "head_dim (3) must be even"),
        (["rope", "--seq-len", "8", "--implementation", "fast"], "it has warpwatch, triton, eager, torch_compile"),
        (["rope", "--seq-len", "8", "--export", "out.txt"], "exported as .json or .csv, not as 'out.txt'"),
        (["rope", "--seq-len", "8", "--export", "/nowhere/out.csv"], "there is no folder /nowhere"),
        (["rope", "--seq-len", "8", "--limit", "0"], "--limit must be more than 0 seconds"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_command_refuses_with_a_sentence_and_exit_status_2(arguments, answer):
    refused = bench(*arguments)
    assert refused.returncode == 2
    assert answer in refused.stderr
    assert refused.stdout == ""


def test_help_lists_an_operators_options_and_their_defaults():
    help_text = " ".join(bench("flash_attention", "--help").stdout.split())
    assert "--seq-len N required" in help_text
    assert "--heads N default 32" in help_text
    assert "--causal, --no-causal" in help_text


def test_the_catalogue_loads_neither_torch_nor_rich():
    code = "import sys, perf_suite.catalogue; sys.exit(bool({'torch', 'rich'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
