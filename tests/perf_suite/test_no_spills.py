"""No kernel for a T4 or an RTX card keeps values in memory for want of registers."""

import pytest

from perf_suite.compiled.installed_kernels import library
from warpbench.compiled.cubin import read_cubin
from warpbench.compiled.cuda_binaries import NoToolsError, cubins_of, find_tools
from warpbench.compiled.mangled_names import signature

pytestmark = pytest.mark.outside  # needs the compiled kernels

_CARDS = ("sm_75", "sm_86", "sm_89", "sm_120")


def test_no_kernel_for_a_t4_or_an_rtx_card_spills() -> None:
    try:
        tools = find_tools()
    except NoToolsError as error:
        pytest.skip(str(error))
    cubins = [code for code in cubins_of(library(), tools) if code.architecture in _CARDS]
    if not cubins:
        pytest.skip("the kernels are not built for any of these here")
    spilling = [
        f"{code.architecture}: {signature(function.name)} has {function.stack_bytes} bytes of stack"
        for code in cubins
        for function in read_cubin(code.data)
        if function.stack_bytes
    ]
    assert spilling == []
