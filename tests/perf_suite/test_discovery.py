"""asv imports every module of the suite to find its benchmarks: that must work without what is optional."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.outside

ROOT = Path(__file__).resolve().parents[2]
# Each discovery in a process of its own, which begins with asv's runner imported and nothing of the suite.
DISCOVER = """
import json, os, sys
from asv_runner.discovery import disc_benchmarks

class Refuse:
    def __init__(self, missing):
        self.missing = missing
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

suite = sys.argv[1]
sys.path.insert(0, os.path.dirname(suite))
for missing in json.loads(sys.argv[2]):
    if os.fork() == 0:
        for name in [name for name in sys.modules if name.partition(".")[0] in missing]:
            del sys.modules[name]
        sys.meta_path.insert(0, Refuse(missing))
        found = {benchmark.name for benchmark in disc_benchmarks(suite, ignore_import_errors=False)}
        print(json.dumps([missing, sorted(found)]), flush=True)
        os._exit(0)
    os.wait()
"""
OPTIONAL = ("torch", "triton", "rich", "cuda", "pynvml", "elftools", "pytest_benchmark", "asv")
MISSING = ((), *((name,) for name in OPTIONAL))


@pytest.fixture(scope="module")
def discovered():
    """What is found, by what is missing; what broke instead has no entry, and its traceback is printed."""
    command = [sys.executable, "-c", DISCOVER, str(ROOT / "perf_suite"), json.dumps(MISSING)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {tuple(missing): names for missing, names in map(json.loads, done.stdout.splitlines())}
    return found, done.stderr


@pytest.mark.parametrize("missing", MISSING)
def test_the_benchmarks_are_found_without(missing, discovered):
    found, said = discovered
    assert missing in found, said[-4000:]
    assert len(found[missing]) > 40
    assert "benchmarks.rope.Rope.track_latency" in found[missing]
