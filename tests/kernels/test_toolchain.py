"""Where the build finds its CUDA compiler: CUDA_HOME, then PATH, then the pip packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpwatch.kernels.building import toolchain


def a_toolkit(home: Path, version: str) -> Path:
    """A folder that looks like a CUDA toolkit, with an nvcc that answers the build's queries."""
    for folder in ("bin", "include", "lib64"):
        (home / folder).mkdir(parents=True)
    (home / "include/cuda_runtime.h").touch()
    (home / "lib64/libcudart_static.a").touch()
    nvcc = home / "bin/nvcc"
    answer = f"echo 'release {version}, V{version}.1'\necho '#$ TOP={home}'\n"
    nvcc.write_text(f"#!/bin/sh\n{answer}")
    nvcc.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def _no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin" if not Path("/usr/bin/nvcc").exists() else str(tmp_path))
    monkeypatch.setattr("sys.path", [str(tmp_path / "site-packages")])


def test_cuda_home_comes_before_path_and_path_before_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = a_toolkit(tmp_path / "site-packages/nvidia/cu13", "13.0")
    on_path = a_toolkit(tmp_path / "on_path", "12.9")
    home = a_toolkit(tmp_path / "home", "13.1")

    assert toolchain.find_cuda() == toolchain.CudaToolkit(
        nvcc=pip / "bin/nvcc",
        include=pip / "include",
        libraries=pip / "lib64",
        version="13.0",
        build=f"release 13.0, V13.0.1\n#$ TOP={pip}\n",
        origin="the pip packages",
    )
    monkeypatch.setenv("PATH", f"{on_path}/bin:/usr/bin:/bin")
    found = toolchain.find_cuda()
    assert found is not None
    assert (found.version, found.origin) == ("12.9", "PATH")
    monkeypatch.setenv("CUDA_HOME", str(home))
    found = toolchain.find_cuda()
    assert found is not None
    assert (found.version, found.origin) == ("13.1", "CUDA_HOME")


def test_a_wrapper_on_path_reports_its_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = a_toolkit(tmp_path / "opt/cuda", "13.0")
    wrapper = tmp_path / "bin/nvcc"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {real}/bin/nvcc "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:/usr/bin:/bin")
    found = toolchain.find_cuda()
    assert found is not None
    assert (found.nvcc, found.include) == (wrapper, real / "include")


def test_nothing_found_is_no_error(tmp_path: Path) -> None:
    assert toolchain.find_cuda() is None


def test_an_incomplete_toolkit_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_runtime = a_toolkit(tmp_path / "on_path", "13.0")
    (without_runtime / "lib64/libcudart_static.a").unlink()
    pip = a_toolkit(tmp_path / "site-packages/nvidia/cu13", "13.0")
    monkeypatch.setenv("PATH", f"{without_runtime}/bin:/usr/bin:/bin")
    found = toolchain.find_cuda()
    assert found is not None
    assert found.nvcc == pip / "bin/nvcc"


def test_a_cuda_home_without_a_compiler_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"CUDA_HOME=.* has no working bin/nvcc"):
        toolchain.find_cuda()
