"""A GPU and a run on it, as tests of records begin with them."""

from warpbench.records import Cpu, Gpu, RunRecord

H200 = Gpu(
    name="NVIDIA H200",
    uuid="GPU-1",
    compute_capability="9.0",
    driver="580.1",
    power_limit_w=700.0,
    sm_count=132,
    l2_bytes=60 << 20,
    memory_bytes=141 << 30,
    ecc=True,
    mig=False,
    other_processes=0,
)
RUN_ON_H200 = RunRecord(
    run="f" * 32,
    commit="",
    environment="",
    started_at="2026-01-02T03:04:05+00:00",
    device="cuda",
    gpu=H200,
    cpu=Cpu(model="EPYC", cores=16, threads=16),
    software={"torch": "2.11", "triton": "3.6.0"},
    ceilings=None,
    suite_sha256="suite",
)
