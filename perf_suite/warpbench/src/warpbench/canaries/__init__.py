"""Two fixed kernels, measured in every run, so that a machine's drift can be distinguished from a kernel's own change.

`triad` moves with the memory and its clock, `matmul` with the tensor cores and the SM clock. A library's matmul would
change with the library and a Triton kernel with Triton, so these are PTX text of our own, compiled once from the .cu
next to it and committed. What turns the text into machine code is the driver, so only another driver can change them;
the run record names the driver. They are not tuned and need not be: they have to stay as they are. To change
one all the same (`python -m warpbench.canaries.ptx` writes the PTX anew), raise the `version` in
benchmarks/control.py: the old numbers are then not comparable with the new ones.
"""
