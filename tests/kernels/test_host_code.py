"""What the hash of an object's host code sees and what it does not: objects of the compiler that the build takes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from warpwatch.kernels.building.build_record import host_code_sha256

# Which kernel is launched need not stand in any code: here code reads it from tables.
DISPATCH = """
#include <cstdio>
static int narrow(int x) { std::puts("narrow"); return x + 1; }
static int wide(int x) { std::puts("wide"); return x + 2; }
int shared(int x);
int other(int x);
using Launcher = int (*)(int);
extern Launcher const own[] = {narrow, wide};
extern Launcher const elsewhere[] = {shared, narrow};
int launch(int which, int x) { return own[which](x) + elsewhere[which](x); }
struct Operator {
  virtual int forward(int x);
  virtual int backward(int x);
};
int Operator::forward(int x) { return x + 3; }
int Operator::backward(int x) { return x + 4; }
int rows = 128;
int (*at_load)(const char*) = std::puts;
static const int loaded = std::puts("loaded");
"""
FORWARD, BACKWARD = "  virtual int forward(int x);\n", "  virtual int backward(int x);\n"


def sha256(folder: Path, source: str, *options: str) -> str:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    folder.mkdir(parents=True)
    (folder / "dispatch.cpp").write_text(source)
    command = [compiler, "-std=c++17", "-O2", "-fPIC", *options, "-c", str(folder / "dispatch.cpp"), "-o", "dispatch.o"]
    subprocess.run(command, cwd=folder, check=True)
    return host_code_sha256(folder / "dispatch.o")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{narrow, wide}", "{wide, narrow}"),
        ("{shared, narrow}", "{other, narrow}"),
        (FORWARD + BACKWARD, BACKWARD + FORWARD),
        ("rows = 128", "rows = 256"),
        ("at_load)(const char*) = std::puts", "at_load)(const char*) = std::remove"),
        ("x + 4", "x + 5"),
    ],
    ids=[
        "a table of the file's own functions",
        "a table of another file's functions",
        "a table of virtual functions",
        "a variable's first value",
        "a function that a variable points to",
        "code",
    ],
)
def test_another_dispatch_is_other_code(before: str, after: str, tmp_path: Path) -> None:
    assert before in DISPATCH
    assert sha256(tmp_path / "a", DISPATCH) != sha256(tmp_path / "b", DISPATCH.replace(before, after))


def test_the_same_dispatch_written_otherwise_is_the_same_code(tmp_path: Path) -> None:
    lines_lower = "// What follows is a table.\n\n" + DISPATCH.replace("{narrow, wide}", "{\n  narrow,\n  wide,\n}")
    assert sha256(tmp_path / "a", DISPATCH) == sha256(tmp_path / "longer path" / "b", lines_lower, "-g")
