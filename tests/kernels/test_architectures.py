"""Which machine code a source is compiled to, by its suffix and by what was asked for."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest

from warpwatch.kernels.building import architectures


def codes(source: str, expected: str) -> set[str]:
    flags = architectures.gencode(PurePath(source), architectures.parse(expected))
    return {flag.rpartition("code=")[2] for flag in flags}


def test_all_are_the_tracked_ones_of_which_sm_89_runs_the_code_of_sm_86() -> None:
    assert codes("rope.cu", "all") == {"sm_75", "sm_86", "sm_90a", "sm_120", "compute_75"}
    assert codes("flash_attention_sm75.cu", "all") == {"sm_75", "compute_75"}
    assert codes("flash_attention_sm80.cu", "all") == {"sm_86", "sm_90a", "sm_120", "compute_80"}
    assert codes("flash_attention_hbm.cu", "all") == {"sm_90a", "compute_80"}
    assert codes("flash_attention_sm90a.cu", "all") == {"sm_90a"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("9.0\n9.0\n", ("90a",)),
        ("8.9\n7.5\n", ("75", "89")),
        ("12.0\n", ("120",)),
        ("6.1\n", ()),
        ("[N/A]\n", ()),
        (None, ()),
    ],
    ids=["two H200s", "an RTX 4090 and a T4", "an RTX 5090", "a GTX 1080", "no answer", "no driver"],
)
def test_without_a_wish_the_gpus_of_this_machine_count(
    said: str | None, expected: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexit 9\n" if said is None else f"#!/bin/sh\nprintf '{said}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert architectures.parse(None) == expected
    assert architectures.parse("75") == ("75",)


@pytest.mark.parametrize(
    ("expected", "sm75", "sm80", "hbm", "sm90a", "all_of_them"),
    [
        ("75", {"sm_75", "compute_75"}, set(), set(), set(), {"sm_75", "compute_75"}),
        ("80", set(), {"sm_80", "compute_80"}, {"sm_80", "compute_80"}, set(), {"sm_80", "compute_80"}),
        ("89", set(), {"sm_89", "compute_80"}, {"compute_80"}, set(), {"sm_89", "compute_80"}),
        ("89 86", set(), {"sm_86", "compute_80"}, {"compute_80"}, set(), {"sm_86", "compute_80"}),
        ("90a", set(), {"sm_90a"}, {"sm_90a"}, {"sm_90a"}, {"sm_90a"}),
        ("120", set(), {"sm_120", "compute_120"}, {"compute_80"}, set(), {"sm_120", "compute_120"}),
        ("86;120", set(), {"sm_86", "sm_120", "compute_80"}, {"compute_80"}, set(), {"sm_86", "sm_120", "compute_80"}),
        ("none", set(), set(), set(), set(), set()),
    ],
)
def test_a_subset_builds_what_it_needs_and_no_more(
    expected: str, sm75: set[str], sm80: set[str], hbm: set[str], sm90a: set[str], all_of_them: set[str]
) -> None:
    assert codes("op_sm75.cu", expected) == sm75
    assert codes("op_sm80.cu", expected) == sm80
    assert codes("op_hbm.cu", expected) == hbm
    assert codes("op_sm90a.cu", expected) == sm90a
    assert codes("op.cu", expected) == all_of_them


@pytest.mark.parametrize("expected", ["all", "75", "80", "86;89", "90a", "120", "none"])
def test_a_family_is_announced_exactly_when_its_sources_are_compiled(expected: str) -> None:
    for family in architectures.FAMILIES:
        chosen = architectures.parse(expected)
        assert architectures.has_family(family, chosen) == bool(codes(f"op_{family}.cu", expected))


def forms(source: str, expected: str) -> dict[str, str]:
    """Machine code -> the intermediate form that it is made from."""
    flags = architectures.gencode(PurePath(source), architectures.parse(expected))
    return {flag.rpartition("code=")[2]: flag.split("=")[2].partition(",")[0] for flag in flags}


def test_ampere_and_ada_share_an_intermediate_form_and_blackwell_has_its_own() -> None:
    assert forms("op_sm80.cu", "86")["sm_86"] == forms("op_sm80.cu", "89")["sm_89"] == "compute_80"
    assert forms("op_sm80.cu", "all")["sm_120"] == "compute_120"


def test_hopper_gets_no_kernels_that_it_never_runs() -> None:
    assert codes("int4_linear/int4_linear_sm80.cu", "all") == {"sm_86", "sm_120", "compute_80"}
    assert codes("int4_linear/int4_linear_sm80.cu", "75;90a") == {"compute_80"}, "the bindings link it"
    assert codes("int4_linear/int4_linear_sm80.cu", "none") == set()


def test_hopper_shares_ampere_s_form_where_its_own_makes_no_other_code() -> None:
    assert forms("flash_attention_sm80.cu", "all")["sm_90a"] == "compute_80"
    assert forms("flash_attention_sm80.cu", "90a")["sm_90a"] == "compute_80"
    assert forms("decode_attention_sm80.cu", "all")["sm_90a"] == "compute_90a"


def test_each_source_with_a_rule_of_its_own_is_there() -> None:
    stems = {path.stem for path in Path(architectures.__file__).parents[1].glob("csrc/**/*_sm80.cu")}
    assert stems >= architectures.NOT_FOR_HOPPER | architectures.HOPPER_AS_SM80


def test_only_a_known_suffix_is_one() -> None:
    assert architectures.family(PurePath("flash_attention.cu")) is None
    assert architectures.family(PurePath("silu_mul_sm80.cu")) == "sm80"


@pytest.mark.parametrize("wrong", ["sm_75", "7.5", "60", "75;;x", "every"])
def test_a_wrong_list_is_answered_with_a_right_one(wrong: str) -> None:
    sentence = r"is no architecture of 75 or newer; expected 'all', 'none' or a list such as '75;86;89;90a;120'"
    with pytest.raises(ValueError, match=sentence):
        architectures.parse(wrong)
