"""Which architecture's machine code a GPU runs."""

import pytest

from warpbench.compiled.architectures import (
    architecture_run_by,
    compute_capability_of,
    parse_compute_capability,
    runs_on,
)


@pytest.mark.parametrize(
    ("gpu", "built", "taken"),
    [
        ((9, 0), ["sm_75", "sm_86", "sm_90a"], "sm_90a"),
        ((9, 0), ["sm_90", "sm_90a"], "sm_90a"),
        ((9, 0), ["sm_90"], "sm_90"),
        ((8, 9), ["sm_75", "sm_86", "sm_90a"], "sm_86"),
        ((8, 9), ["sm_80", "sm_86"], "sm_86"),
        ((8, 9), ["sm_86", "sm_89"], "sm_89"),
        ((8, 0), ["sm_75", "sm_86", "sm_90a"], None),  # 8.6 is newer, 7.5 another major version: PTX
        ((10, 0), ["sm_90a", "sm_120"], None),
        ((10, 3), ["sm_100f", "sm_100a"], "sm_100f"),
        ((12, 1), ["sm_120"], "sm_120"),
        ((12, 1), ["sm_120a"], None),
    ],
)
def test_a_gpu_takes_the_nearest_machine_code_that_it_runs(gpu, built, taken):
    assert architecture_run_by(gpu, built) == taken


def test_an_architecture_of_its_own_runs_nowhere_else():
    assert runs_on("sm_90a", (9, 0))
    assert not runs_on("sm_100a", (10, 3))


def test_names_are_read_and_wrong_ones_answered():
    assert compute_capability_of("sm_120") == (12, 0)
    assert parse_compute_capability("8.9") == (8, 9)
    with pytest.raises(ValueError, match="no architecture '90a'; expected one such as 'sm_90a'"):
        compute_capability_of("90a")
    with pytest.raises(ValueError, match="no compute capability '89'"):
        parse_compute_capability("89")
