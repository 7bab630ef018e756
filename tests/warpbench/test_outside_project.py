"""Another project under warpbench, by the steps of its README: a wrong kernel, a crashing one, and the import."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..perf_suite.cuda_sources import needs_nvcc

pytestmark = pytest.mark.outside

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "perf_suite/warpbench/README.md"
SETUP = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "my_kernels"
version = "0.1"
[tool.setuptools]
packages = ["my_kernels"]
[tool.setuptools.package-data]
my_kernels = ["*.so"]
"""
RIGHT = """
import torch

def rms_norm(x, weight):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, 1e-6)
"""
WRONG = RIGHT.replace("1e-6)", "1e-6) * 1.5")
LIBRARY = """
__global__ void rms_norm_rows(float* x) { x[threadIdx.x] *= rsqrtf(x[0] * x[0] + 1e-6f); }
"""
CRASHING = "import os\n\ndef rms_norm(x, weight):\n    os.abort()\n"


class Checkout:
    """A git repository of a project with kernels."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "my_kernels").mkdir()
        (folder / "pyproject.toml").write_text(SETUP)
        (folder / ".gitignore").write_text(".asv/\n")
        self.run("git init --quiet --initial-branch main")
        self.commit(RIGHT)

    def commit(self, kernels: str) -> None:
        (self.folder / "my_kernels/__init__.py").write_text(kernels)
        self.run("git add --all && git commit --quiet --message change")

    def run(self, command: str, *, codes: tuple[int, ...] = (0,)) -> str:
        """A shell command's output. It has to end with one of `codes`."""
        done = subprocess.run(
            command, shell=True, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode in codes, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        """Commands of this interpreter, and no GPU."""
        names = {"AUTHOR", "COMMITTER"}
        person = {f"GIT_{name}_{what}": "a@example.org" for name in names for what in ("NAME", "EMAIL")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        database = f"sqlite:///{self.folder / '.asv' / 'warpwatch.db'}"
        own = {"PATH": path, "HOME": str(self.folder), "CUDA_VISIBLE_DEVICES": "", "WARPWATCH_DATABASE": database}
        return os.environ | person | own


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Two commits, of which the second is wrong."""
    checkout = Checkout(tmp_path_factory.mktemp("outside"))
    checkout.commit(WRONG)
    return checkout


def steps() -> list[str]:
    """The README's shell blocks."""
    return re.findall(r"```sh\n(.*?)```", README.read_text(), re.DOTALL)


def benchmark() -> str:
    """The README's benchmark, of shapes that a CPU does quickly."""
    return python_blocks()[0].replace("(2048, 4096)", "(64, 512)")


def python_blocks() -> list[str]:
    """A benchmark, and the class of compiled code."""
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def measurements(project: Checkout, implementation: str) -> list[dict[str, object]]:
    """Context records of one implementation of rms_norm, the oldest commit's first."""
    commits = project.run("git log --reverse --format=%H").split()
    found = []
    for commit in commits:
        for path in (project.folder / ".asv/results").rglob(f"{commit[:8]}-*.context.jsonl"):
            lines = map(json.loads, path.read_text().splitlines())
            found += [line for line in lines if line.get("implementation") == implementation]
    return [line for line in found if line["record"] == "measurement" and line["benchmark"] == "rms_norm.RmsNorm"]


@pytest.mark.timeout(1800)
def test_the_readmes_steps_lead_from_a_kernel_to_a_comparison(project: Checkout) -> None:
    init, run, measure, compare = steps()
    project.run(init)
    (project.folder / "benchmarks/rms_norm.py").write_text(benchmark())
    installed = {**project.environment, "PYTHONPATH": str(project.folder)}  # instead of `pip install --editable .`
    table = subprocess.run(
        run, shell=True, cwd=project.folder, env=installed, capture_output=True, text=True, check=False
    )
    assert table.returncode == 1, table.stderr  # the kernel of HEAD is wrong
    assert "ours: failed: relative error 5.0" in table.stdout
    project.commit(RIGHT)
    project.run(measure.replace('git commit --quiet --message "Benchmarks"\n', ""), codes=(2,))
    assert ": kernels " in project.run(
        compare, codes=(0, 2)
    )  # the verdict; what was wrong at the base is missing there

    ours = measurements(project, "ours")
    assert {record["status"] for record in ours[:2]} == {"failed"}
    assert {record["failure"] for record in ours[:2]} == {"wrong result"}
    assert {record["status"] for record in ours[2:]} == {"ok"}
    assert {record["status"] for record in measurements(project, "eager")} == {"ok"}


@pytest.mark.timeout(1800)
def test_a_kernel_that_crashes_costs_itself_alone(project: Checkout) -> None:
    project.commit(CRASHING)
    project.run("asv run HEAD^! --quick", codes=(2,))
    (last, *_) = measurements(project, "ours")[-2:]
    assert last["failure"] == "crash"
    assert "signal 6" in str(last["reason"])
    assert measurements(project, "eager")[-1]["status"] == "ok"


@needs_nvcc
@pytest.mark.timeout(1800)
def test_the_compiled_code_of_the_projects_library_is_recorded_without_a_gpu(project: Checkout) -> None:
    project.run(steps()[0])
    project.run("asv machine --yes")
    (project.folder / "rms_norm.cu").write_text(LIBRARY)
    project.run("nvcc -arch=sm_90 -Xcompiler -fPIC -shared -o my_kernels/_C.so rms_norm.cu")
    named = benchmark().replace("@kernel\n", '@kernel(library="my_kernels/_C*.so", kernels=["rms_norm_.*", "gone"])\n')
    (project.folder / "benchmarks/rms_norm.py").write_text(named)
    (project.folder / "benchmarks/compiled_code.py").write_text(python_blocks()[1])
    project.commit(RIGHT)
    project.run("asv run HEAD^! --bench CompiledCode")
    commit = project.run("git rev-parse HEAD").strip()
    project.run("PYTHONPATH=. warpbench compiled code.json && warpwatch compare --code code.json code.json")
    (code,) = json.loads((project.folder / "code.json").read_text())["kernels"]
    (context,) = (project.folder / ".asv/results").rglob(f"{commit[:8]}-*.context.jsonl")
    lines = [json.loads(line) for line in context.read_text().splitlines()]
    (record,) = (line for line in lines if line["record"] == "compiled")
    assert (record["operator"], record["kernel"], record["architecture"]) == ("rms_norm", "rms_norm_rows", "sm_90a")
    assert (record["registers"], record["sha256"]) == (code["registers"], code["sha256"])
    shown = project.run(f"asv show {commit} --bench track_registers")
    assert re.search(r"rms_norm_\.\*\s.*?n/a.*?\d", shown), shown
    project.run("warpwatch import . --project kernels --repository .")
    exported = json.loads(project.run("warpwatch export --format json --project kernels"))
    registers = [
        point["value"]
        for point in exported["rows"]
        if point["metric"] == "registers" and "rms_norm_" in str(point["parameters"])
    ]
    assert record["registers"] in registers
