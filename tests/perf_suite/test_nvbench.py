"""NVBench's plan and the order of its calls, with a clock that stands in for the GPU's; on a GPU, the real one."""

import contextlib
from array import array
from pathlib import Path

import pytest
import torch

from perf_suite.benchmarks.flash_attention_backward import FlashAttentionBackward, case
from warpbench import session
from warpbench.protocol import Job
from warpbench.records import Status
from warpbench.timing import nvbench
from warpbench.timing.timing import TimedCall

GIB = 1 << 30


@pytest.mark.parametrize(
    ("latency_s", "launches", "stream_gib", "free_gib", "streams"),
    [
        (10e-6, 1, 0, 1, 16),
        (10e-6, 1, 1, 16, 16),
        (10e-6, 1, 1, 15, 8),
        (1e-3, 1, 1, 16, 8),
        (1e-3, 100, 1, 16, 16),  # of many short launches
        (10e-3, 1, 40, 130, 2),
        (10e-3, 1, 70, 130, 1),
        (10e-3, 1, 500, 130, 1),  # one in any case: that it does not fit shows outside the timed calls
    ],
)
def test_streams_are_as_many_as_the_memory_of_their_calls_fits(latency_s, launches, stream_gib, free_gib, streams):
    plan = nvbench._plan(latency_s, launches, stream_gib * GIB, free_gib * GIB)
    assert plan.streams == streams
    assert plan.streams * stream_gib <= free_gib or plan.streams == 1
    assert plan.streams * plan.calls >= 16


class FakeState:
    """Calls what NVBench would call, and leaves one file of samples as NVBench does."""

    def __init__(self, report: Path, events: list) -> None:
        self._report, self._events, self._calls, self._files = report, events, 0, 0

    def set_stream(self, stream) -> None:
        self._events.append(("stream", stream))

    def set_min_samples(self, calls: int) -> None:
        self._calls = calls

    def exec(self, launch, *, timer: bool, batched: bool) -> None:
        self._events.append("exec")
        for _ in range(self._calls):
            launch(None, self)
        for suffix, value in (("bin", 1e-5), ("freqs-bin", 1.8e9)):
            folder = self._report.with_name(f"{self._report.name}-{suffix}")
            folder.mkdir(exist_ok=True)
            (folder / f"{self._files}.bin").write_bytes(array("f", [value] * self._calls).tobytes())
        self._files += 1

    def start(self) -> None:
        self._events.append("start")

    def stop(self) -> None:
        self._events.append("stop")


@pytest.fixture
def timed(tmp_path, monkeypatch):
    """An NVBench whose state, streams and memory are stand-ins, and what happened, in order."""
    events: list = []
    monkeypatch.setattr(nvbench, "_estimated", lambda call: (10e-6, GIB))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: events.append("synchronize"))
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (100 * GIB, 140 * GIB))
    monkeypatch.setattr(nvbench, "version", lambda: "0")
    monkeypatch.setattr(nvbench, "release_kept_lines", lambda: events.append("release"))
    instrument = nvbench.NVBench()
    instrument._report = tmp_path / "report.json"
    instrument._state = FakeState(instrument._report, events)
    instrument._streams = list(range(32))
    return instrument, events


def test_each_stream_makes_its_untimed_calls_before_its_timed_ones(timed):
    instrument, events = timed
    alive, most = set(), []

    class Out:
        def __init__(self) -> None:
            alive.add(id(self))
            most.append(len(alive))

        def __del__(self) -> None:
            alive.discard(id(self))

    def run():
        events.append("run")
        return Out()

    call = TimedCall(run=run, after=lambda out: events.append("after"), peak_memory_bytes=10 * GIB)
    timing = instrument.sample_latency([call], quick=False)
    assert len(timing.samples_s) > 0
    starts = [index for index, event in enumerate(events) if event == "exec"]
    assert len(starts) == 4, "of 4 x 1 + 2 x 10 GiB a stream, four streams fit 100 GiB"
    for index in starts:
        untimed = ["synchronize", *["run", "after"] * 3, "synchronize"]
        assert events[index - len(untimed) - 1 : index - 1] == untimed
        assert events[index - 1][0] == "stream"
        assert events[index + 1 : index + 6] == ["release", "start", "run", "stop", "after"]
    assert max(most) == 3, "so many outputs are alive at once, as at worst while the gate watches"


def test_two_visits_share_the_streams_and_the_places_of_the_data(timed):
    instrument, events = timed
    places: list[int] = []

    def call(place):
        return TimedCall(run=lambda: places.append(place), after=lambda out: None)

    def visited(**visit):
        events.clear()
        places.clear()
        timing = instrument.sample_latency([call(place) for place in range(8)], quick=False, **visit)
        return [event[1] for event in events if event[0] == "stream"], set(places), timing

    streams, _, whole = visited()
    first, of_first, half = visited(visit=0, visits=2)
    second, of_second, other_half = visited(visit=1, visits=2)
    assert sorted([*first, *second]) == streams
    assert of_first | of_second == set(range(8))
    assert len(half.samples_s) == len(other_half.samples_s) == len(whole.samples_s)
    assert half.calls_per_sample + other_half.calls_per_sample == whole.calls_per_sample


def test_two_visits_share_the_calls_where_there_is_one_stream(timed):
    instrument, events = timed
    calls = [TimedCall(run=lambda: events.append("run"), after=lambda out: None, peak_memory_bytes=500 * GIB)]
    counts = []
    for visit, visits in ((0, 1), (0, 2), (1, 2)):
        events.clear()
        instrument.sample_latency(calls, quick=False, visit=visit, visits=visits)
        counts.append(events.count("start"))
    assert counts[0] == counts[1] + counts[2]


def test_a_call_that_runs_out_of_memory_does_so_untimed(timed):
    instrument, events = timed

    def run():
        raise torch.cuda.OutOfMemoryError("too large")

    with pytest.raises(torch.cuda.OutOfMemoryError):
        instrument.sample_latency([TimedCall(run=run, after=lambda out: None, peak_memory_bytes=500 * GIB)], quick=True)
    assert "exec" not in events


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_call_that_needs_gigabytes_in_addition_to_its_output_is_timed_on_a_gpu_without_a_deadlock():
    """Eager attention's gradients at 8192 tokens: several GB of scores a call."""
    row = FlashAttentionBackward.workload_of(
        case("cuda", "fp16", heads=32, heads_kv=8, seq_len=8192, causal=True, window=1024)
    )
    job = Job(benchmark="benchmarks.large.Large", workload=row, implementation="eager")
    (measured,) = [o.measurement for o in session.measure([job]).outcomes if o.measurement.workload == row.name]
    assert measured.status is Status.OK, measured.reason
