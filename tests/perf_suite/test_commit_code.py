"""The document of one commit's compiled code: real builds of one operator, edited and committed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .cuda_sources import needs_nvcc

ROOT = Path(__file__).resolve().parents[2]
BUILD = """
import sys
from pathlib import Path
sys.path.insert(0, "kernels")
from building import build_extension
build_extension(Path.cwd(), Path("kernels/_C.abi3.so").resolve())
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A repository with one operator, built for Turing."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("*.so", "*.json", "__pycache__", "csrc", "results")
    shutil.copytree(ROOT / "kernels", folder / "kernels", ignore=ignored)
    for part in ("framework", "primitives", "vector_add"):
        shutil.copytree(ROOT / "kernels/csrc" / part, folder / "kernels/csrc" / part)
    (folder / "kernels/csrc/bindings").mkdir()
    shutil.copy2(ROOT / "kernels/csrc/vector_add/binding.cpp", folder / "kernels/csrc/bindings")
    git(folder, "init", "--quiet")
    (folder / ".gitignore").write_text("*.so\n*.json\nbuild/\n__pycache__/\n")
    return folder


def git(folder, *words):
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(checkout, message):
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", message)
    environment = {**os.environ, "WARPWATCH_CUDA_ARCHS": "75"}
    subprocess.run([sys.executable, "-c", BUILD], cwd=checkout, env=environment, check=True, capture_output=True)
    return git(checkout, "rev-parse", "HEAD")


def compiled(checkout, output):
    return subprocess.run(
        [sys.executable, "-m", "perf_suite.compiled", str(output), "--checkout", str(checkout)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def document(checkout, output):
    done = compiled(checkout, output)
    assert done.returncode == 0, done.stderr
    return json.loads(output.read_text())


@needs_nvcc
def test_a_document_lists_every_kernel_and_one_hash_of_all_that_runs(checkout, tmp_path):
    first = commit(checkout, "one")
    recorded = document(checkout, tmp_path / "one.json")
    assert recorded["commit"] == first
    assert {each["kernel"] for each in recorded["kernels"]} == {"vector_add_pieces", "vector_add_elements"}
    assert {each["operator"] for each in recorded["kernels"]} == {"vector_add"}
    assert {each["architecture"] for each in recorded["kernels"]} == {"sm_75"} == recorded["code_sha256"].keys()

    words = checkout / "kernels/csrc/vector_add/vector_add.cu"
    words.write_text("// A word more.\n" + words.read_text())
    commit(checkout, "words")
    assert document(checkout, tmp_path / "words.json")["code_sha256"] == recorded["code_sha256"]

    operator = checkout / "kernels/operators/vector_add.py"
    operator.write_text(operator.read_text().replace("import torch\n", "import torch\n\nUSED = 1\n"))
    commit(checkout, "another way to call it")
    called = document(checkout, tmp_path / "called.json")
    assert called["kernels"] == recorded["kernels"]
    assert called["code_sha256"] != recorded["code_sha256"]

    words.write_text(words.read_text().replace("from_float(a + b,", "from_float(a + b * a,"))
    commit(checkout, "another sum")
    assert document(checkout, tmp_path / "sum.json")["kernels"] != recorded["kernels"]


def test_what_is_not_built_is_refused_with_the_place(tmp_path):
    assert "has no kernels/" in compiled(tmp_path, tmp_path / "no.json").stderr
    (tmp_path / "kernels").mkdir()
    shutil.copy2(ROOT / "kernels/extension.py", tmp_path / "kernels/extension.py")
    assert "is no package" in compiled(tmp_path, tmp_path / "no.json").stderr
    (tmp_path / "kernels/__init__.py").touch()
    assert "no git checkout" in compiled(tmp_path, tmp_path / "no.json").stderr
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "nothing built")
    refused = compiled(tmp_path, tmp_path / "no.json")
    assert refused.returncode == 2
    assert f"the kernels are not built in {tmp_path / 'kernels'}" in refused.stderr
    assert not (tmp_path / "no.json").exists()
