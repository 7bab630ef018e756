"""Device checks for implementations in Python: the fake operators and the Triton twins."""

from __future__ import annotations

import torch


def check_devices(operator: str, **tensors: torch.Tensor) -> None:
    """Raise RuntimeError unless all tensors are on the first one's device.

    The real operators check this too, but PyTorch calls the fake one as soon as any argument is a meta tensor (for
    example a weight that was never loaded), and would then return uninitialised memory.
    """
    (first, reference), *others = tensors.items()
    for name, tensor in others:
        if tensor.device != reference.device:
            raise RuntimeError(
                f"{operator}: {first} and {name} must be on one device: "
                f"{first} is on {reference.device}, {name} on {tensor.device}"
            )
