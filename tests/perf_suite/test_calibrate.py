"""Measured ceilings: the file they are kept in, the windows that stay in an L2, and the command."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpbench.calibration import ceiling_file
from warpbench.calibration.ceiling_file import Calibration, Ceiling, cpu_key, load, measured_ceilings, save
from warpbench.calibration.gpu import L2TooSmallError, windows
from warpbench.machines import MACHINES
from warpbench.records import Ceilings, Cpu

ROOT = Path(__file__).resolve().parents[2]


def ceiling(name, rate, **others):
    return Ceiling(name=name, rate=rate, method=f"{name} somehow", spread=0.001, settled=True, **others)


CALIBRATION = Calibration(
    uuid="GPU-0a1b",
    name="Tesla T4",
    measured_at="2026-01-02T03:04:05+00:00",
    driver="580.1",
    power_limit_w=70.0,
    software={"torch": "2.11"},
    ceilings=(
        ceiling("bandwidth", 2.6e11, sm_clock_hz=1.59e9),
        ceiling("l2", 1.2e12),
        dataclasses.replace(ceiling("fp16", 4.1e13), settled=False),
    ),
    left_out={"bf16": "compute capability 7.5 has none"},
)


def test_a_run_on_the_same_gpu_reads_what_calibrate_stored(tmp_path):
    save(CALIBRATION, tmp_path)
    assert load("GPU-0a1b", tmp_path) == CALIBRATION
    assert measured_ceilings("GPU-0a1b", tmp_path) == Ceilings(
        name="Tesla T4",
        source="measured",
        bandwidth_bps=2.6e11,
        l2_bandwidth_bps=1.2e12,
        flops={"fp16": 4.1e13},
        note="bandwidth somehow; driver 580.1; torch 2.11; power limit 70 W; fp16 was still falling",
        measured_at="2026-01-02T03:04:05+00:00",
    )


def test_another_gpu_and_one_without_a_uuid_have_no_measured_ceilings(tmp_path):
    save(CALIBRATION, tmp_path)
    assert measured_ceilings("GPU-ffff", tmp_path) is None
    assert measured_ceilings(None, tmp_path) is None
    assert measured_ceilings("GPU-0a1b", tmp_path / "nowhere") is None


def test_the_folder_is_the_environments(tmp_path, monkeypatch):
    monkeypatch.delenv(ceiling_file.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert save(CALIBRATION) == tmp_path / "data" / "warpwatch" / "ceilings" / "GPU-0a1b.json"
    monkeypatch.setenv(ceiling_file.FOLDER_VARIABLE, str(tmp_path / "chosen"))
    assert measured_ceilings("GPU-0a1b") is None
    assert save(CALIBRATION).parent == tmp_path / "chosen"
    assert measured_ceilings("GPU-0a1b") is not None


def test_a_second_calibration_replaces_the_first_and_leaves_no_other_file(tmp_path):
    save(CALIBRATION, tmp_path)
    save(dataclasses.replace(CALIBRATION, driver="590.0"), tmp_path)
    assert load("GPU-0a1b", tmp_path).driver == "590.0"
    assert [file.name for file in tmp_path.iterdir()] == ["GPU-0a1b.json"]


def test_a_calibration_that_cannot_be_written_leaves_the_earlier_one(tmp_path):
    save(CALIBRATION, tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        save(dataclasses.replace(CALIBRATION, power_limit_w=float("nan")), tmp_path)
    with pytest.raises(TypeError):
        save(dataclasses.replace(CALIBRATION, note=object()), tmp_path)
    assert load("GPU-0a1b", tmp_path) == CALIBRATION
    assert [file.name for file in tmp_path.iterdir()] == ["GPU-0a1b.json"]


def test_a_calibration_without_memory_bandwidth_is_not_stored(tmp_path):
    with pytest.raises(ValueError, match="holds no memory bandwidth, only l2"):
        save(dataclasses.replace(CALIBRATION, ceilings=(ceiling("l2", 1.2e12),)), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 99}', '{"schema": 1, "ceilings": [{"name": "x"}]}'])
def test_a_file_that_is_no_calibration_is_named_with_the_way_out(tmp_path, text):
    (tmp_path / "GPU-1.json").write_text(text)
    with pytest.raises(ValueError, match=r"GPU-1\.json is no calibration .* delete it"):
        measured_ceilings("GPU-1", tmp_path)


def test_a_uuid_names_a_file_in_the_folder_whatever_it_holds(tmp_path):
    file = save(dataclasses.replace(CALIBRATION, uuid="../GPU 1"), tmp_path)
    assert file.parent == tmp_path
    assert measured_ceilings("../GPU 1", tmp_path) is not None


def test_a_cpu_goes_by_its_model():
    assert cpu_key(Cpu(model="AMD EPYC 9B45 (Turin)", cores=2, threads=1)) == "CPU-AMD-EPYC-9B45-Turin"


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.names[0])
def test_the_l2s_windows_stay_in_it_and_miss_the_l1(machine):
    read = windows(machine.l2_bytes, machine.sm_count)
    assert (read.count - 1) * read.shift + read.length <= read.buffer <= machine.l2_bytes / 2
    assert read.shift % 128 == read.length % 128 == 0  # whole cache lines
    assert read.count % machine.sm_count == 0  # an SM is dealt the same windows each time
    assert read.shift * machine.sm_count >= read.length  # and they do not overlap
    of_an_sm = read.count // machine.sm_count * read.length
    assert of_an_sm >= 256 << 10  # no L1 is larger
    assert 2 << 30 <= read.bytes_read < 16 << 30  # some hundred microseconds


def test_an_l2_too_small_to_read_from_is_refused():
    with pytest.raises(L2TooSmallError, match="too small"):
        windows(100_000, 2)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """What the command prints and writes where there is no GPU."""
    folder = tmp_path_factory.mktemp("ceilings")
    command = [sys.executable, "-m", "warpbench", "calibrate", "--device", "cpu", "--output", str(folder)]
    environment = {**os.environ, "COLUMNS": "100"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return folder, ended.stdout


def test_the_command_measures_this_cpu_and_stores_it(calibrated):
    folder, _ = calibrated
    (file,) = folder.iterdir()
    stored = json.loads(file.read_text())
    rates = {ceiling["name"]: ceiling["rate"] for ceiling in stored["ceilings"]}
    assert 1e9 < rates["bandwidth"] < 1e12
    assert 1e9 < rates["fp32"] < 1e12
    assert measured_ceilings(file.stem, folder).flops.keys() == {"fp32"}


def test_the_commands_table_is_readable_where_there_is_no_terminal(calibrated):
    folder, printed = calibrated
    (file,) = folder.iterdir()
    assert "\x1b" not in printed
    assert "memory" in printed
    assert "GFLOP/s" in printed
    assert str(file) in printed


@pytest.mark.gpu
def test_a_gpus_ceilings_are_below_its_peaks_and_above_half_of_them():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    from warpbench.calibration.gpu import calibrate
    from warpbench.machines import ceilings_of

    calibration = calibrate()
    measured, peaks = calibration.as_record(), ceilings_of(calibration.name)
    assert measured.l2_bandwidth_bps > measured.bandwidth_bps
    assert {"fp32", "fp16", "int8"} <= measured.flops.keys()
    if peaks is not None:
        assert 0.5 < measured.bandwidth_bps / peaks.bandwidth_bps < 1
        for dtype, rate in measured.flops.items():
            assert 0.3 < rate / peaks.flops[dtype] < 1.1, dtype  # a GPU may boost beyond its data sheet's clock
