"""One call of a workload × implementation under NVIDIA's profilers. Only `call.py` needs torch and a GPU."""
