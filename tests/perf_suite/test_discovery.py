"""asv imports every module of the suite to find its benchmarks: that must work without what is optional."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DISCOVER = """
import sys
from asv_runner.discovery import disc_benchmarks

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
sys.path.insert(0, {root!r})
names = {{benchmark.name for benchmark in disc_benchmarks({suite!r}, ignore_import_errors=False)}}
print(len(names), "benchmarks.rope.Rope.track_latency" in names)
"""


@pytest.mark.parametrize(
    "missing", [(), ("triton",), ("rich",), ("cuda",), ("pynvml",), ("elftools",), ("pytest_benchmark",), ("asv",)]
)
def test_the_benchmarks_are_found_without(missing):
    code = DISCOVER.format(missing=missing, root=str(ROOT), suite=str(ROOT / "perf_suite"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    count, found = done.stdout.split()
    assert int(count) > 40
    assert found == "True"
