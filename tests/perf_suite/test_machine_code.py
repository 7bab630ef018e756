"""Reading a real library, and the list of watched kernels against it."""

import _ctypes
from pathlib import Path

import pytest

from perf_suite.machine_code import _kernel_name, _signature, find_cuobjdump, read_machine_code
from perf_suite.watched_kernels import ARCHITECTURES, WATCHED_KERNELS, operator_of
from warpwatch.kernels.extension import extension_path

IN_FILE = "_ZN9warpwatch39_GLOBAL__N__ccfdd5ce_7_rope_cu_6fc0f13e11rope_piecesI6float2Lb1ELi4EEEvNS_10RopeParamsEii"


@pytest.fixture(scope="module")
def kernels():
    library, cuobjdump = extension_path(), find_cuobjdump()
    if library is None:
        pytest.skip("the kernels are not built")
    if cuobjdump is None:
        pytest.skip("cuobjdump comes with Triton or CUDA; neither is here")
    found = read_machine_code(library, cuobjdump)
    if not found:
        pytest.skip("the kernels were built without CUDA")
    return found


def test_a_kernel_is_called_by_its_function_alone():
    assert _kernel_name(IN_FILE) == "rope_pieces"
    assert _kernel_name("_Z10add_valuesPfi") == "add_values"
    assert _kernel_name("_ZN9warpwatch4rope5applyILi4EEEvPKf") == "apply"
    assert _kernel_name("plain_c") == "plain_c"


def test_the_signature_does_not_depend_on_where_the_file_was_compiled():
    elsewhere = IN_FILE.replace("ccfdd5ce", "01234567").replace("6fc0f13e", "89abcdef")
    assert _signature(elsewhere) == _signature(IN_FILE)
    assert _signature(IN_FILE) != _signature(IN_FILE.replace("Lb1E", "Lb0E"))


def test_every_kernel_has_registers_and_instructions(kernels):
    for code in kernels:
        assert 0 < code.registers <= 255
        assert code.instructions["total"] == sum(n for name, n in code.instructions.items() if name != "total")
        assert code.instructions["EXIT"] >= 1
        assert code.code_bytes == 16 * code.instructions["total"]
        assert code.local_memory_instructions == code.instructions.get("LDL", 0) + code.instructions.get("STL", 0)


def test_the_hash_tells_kernels_and_generations_apart_and_does_not_change_by_itself(kernels):
    hashes = {(code.kernel, code.architecture): code.sha256 for code in kernels}
    for architecture in {code.architecture for code in kernels}:
        here = [code.sha256 for code in kernels if code.architecture == architecture]
        assert len(set(here)) == len(here)
    # sm_86 and sm_89 may get the same instructions; a Turing and a Hopper never do
    for kernel in {kernel for kernel, architecture in hashes if architecture == "sm_75"}:
        assert hashes[kernel, "sm_75"] != hashes.get((kernel, "sm_90a"))
    again = read_machine_code(extension_path(), find_cuobjdump())
    assert {(code.kernel, code.architecture): code.sha256 for code in again} == hashes


def test_the_watched_kernels_are_those_of_the_built_library(kernels):
    built = {code.kernel for code in kernels}
    assert built - set().union(*WATCHED_KERNELS.values()) == set(), "add them to perf_suite/watched_kernels.py"
    if set(ARCHITECTURES) <= {code.architecture for code in kernels}:
        assert set().union(*WATCHED_KERNELS.values()) - built == set(), "perf_suite/watched_kernels.py names these"


def test_each_kernel_belongs_to_one_operator():
    names = [kernel for kernels in WATCHED_KERNELS.values() for kernel in kernels]
    assert len(set(names)) == len(names)
    assert operator_of("rope_pairs") == "rope"
    assert operator_of("a_kernel_of_another_library") is None


def test_a_library_built_for_the_cpu_alone_has_no_kernels():
    cuobjdump = find_cuobjdump()
    if cuobjdump is None:
        pytest.skip("cuobjdump comes with Triton or CUDA; neither is here")
    assert read_machine_code(Path(_ctypes.__file__), cuobjdump) == ()
