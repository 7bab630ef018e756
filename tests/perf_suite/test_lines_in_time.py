"""Lines of a real process: with many descriptors open, and after it has died with a child alive."""

import contextlib
import os
import resource
import subprocess
import sys
import time

import pytest

from warpbench.child_process import LinesInTime, SilentError

FORKS = """
import os, sys, time
fd = int(sys.argv[1])
os.write(fd, b"first\\n")
if os.fork() == 0:
    time.sleep(600)
os.write(fd, b"second\\nhalf a li")
os.abort()
"""


@pytest.fixture
def started():
    """Starts a program that is given the writing end; its lines, and the process."""
    everything = []

    def started(program, reader=None):
        ends = os.pipe()
        if reader is not None:
            os.dup2(ends[0], reader)
            os.close(ends[0])
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(ends[1])], pass_fds=(ends[1],), start_new_session=True
        )
        os.close(ends[1])
        lines = LinesInTime(ends[0] if reader is None else reader, process)
        everything.append((lines, process))
        return lines, process

    yield started
    for lines, process in everything:
        lines.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()


def test_a_descriptor_above_1023_is_read(started):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1100:
        pytest.skip(f"this machine allows {hard} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1100), hard))
    try:
        lines, _ = started("import os, sys, time; os.write(int(sys.argv[1]), b'a line\\n'); time.sleep(600)", 1050)
        assert lines.next(60) == "a line"
        with pytest.raises(SilentError):
            lines.next(0.2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_end_of_a_process_is_seen_although_its_child_holds_the_pipe(started):
    lines, process = started(FORKS)
    assert lines.next(60) == "first"
    begun = time.monotonic()
    assert [lines.next(60), lines.next(60), lines.next(60)] == ["second", None, None]
    assert time.monotonic() - begun < 30, "long before the limit"
    assert process.poll() == -6


def test_a_process_that_only_says_nothing_is_silent(started):
    lines, process = started("import time; time.sleep(600)")
    with pytest.raises(SilentError, match=r"no answer within 0\.3 s"):
        lines.next(0.3)
    assert process.poll() is None


def test_all_that_was_written_before_the_end_is_read(started):
    program = "import os, sys; [os.write(int(sys.argv[1]), b'%d\\n' % n) for n in range(5000)]"
    lines, process = started(program)
    first = lines.next(60)
    process.wait()
    assert [first, *iter(lambda: lines.next(60), None)] == [str(n) for n in range(5000)]
