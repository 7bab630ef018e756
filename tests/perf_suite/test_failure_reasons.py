"""What a record says of an implementation that raised."""

from warpbench.records import Failure, MeasurementRecord, Status
from warpbench.worker import _numberless

BLANK = MeasurementRecord(
    run="f" * 32,
    benchmark="b",
    workload="w",
    implementation="ours",
    status=Status.FAILED,
    cache="cold",
    seed=1,
    tolerance=1e-3,
)
CUDA_ERROR = (
    "CUDA error: an illegal memory access was encountered\nSearch for `cudaErrorIllegalAddress' in the manual.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1"
)


def reason(error: Exception) -> str | None:
    return _numberless(BLANK, Status.FAILED, error, Failure.ERROR).measurement.reason


def test_a_cuda_error_is_its_first_line() -> None:
    assert reason(RuntimeError(CUDA_ERROR)) == "CUDA error: an illegal memory access was encountered"


def test_another_error_keeps_its_type_and_all_lines() -> None:
    assert reason(ValueError("first\nsecond")) == r"ValueError('first\nsecond')"
