"""Seeded random inputs of a case; never zeros, which draw less power and run faster."""

from collections.abc import Sequence

import torch

from .workload import Workload

TORCH_DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "int64": torch.int64,
    "int32": torch.int32,
    "int8": torch.int8,
    "uint8": torch.uint8,
}


class Draw:
    """Draws the tensors of one set of inputs. `generator`, `device` and `dtype` (the case's) are at hand too.

    Weights stay from call to call, so an implementation may prepare them ahead. Everything else is drawn anew for
    each check of the correctness gate.
    """

    def __init__(self, workload: Workload, generator: torch.Generator) -> None:
        self.generator, self.device = generator, generator.device
        self.dtype = TORCH_DTYPES[workload.dtype]
        self._constants: dict[int, torch.Tensor] = {}  # kept, for another tensor may get the id of a deleted one

    def activation(self, *shape: int, dtype: torch.dtype | None = None, scale: float = 1.0) -> torch.Tensor:
        """Normal values of mean 0 and standard deviation `scale`, in the case's dtype unless another is given."""
        wanted = dtype or self.dtype
        # randn has no 8-bit floats: those are rounded from fp32.
        drawn = wanted if wanted.itemsize > 1 else torch.float32
        values = torch.randn(shape, generator=self.generator, device=self.device, dtype=drawn)
        return (values if scale == 1.0 else values.mul_(scale)).to(wanted)

    def weight(self, *shape: int, dtype: torch.dtype | None = None, scale: float = 1.0) -> torch.Tensor:
        """As `activation`, and the same for every call."""
        return self.constant(self.activation(*shape, dtype=dtype, scale=scale))

    def uniform(
        self, *shape: int, low: float = 0.0, high: float = 1.0, dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """Uniform values from `low` up to `high`."""
        values = torch.rand(shape, generator=self.generator, device=self.device)
        return (values * (high - low) + low).to(dtype or self.dtype)

    def integers(self, low: int, high: int, shape: Sequence[int], dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """Uniform whole numbers from `low` up to, and without, `high`."""
        return torch.randint(low, high, tuple(shape), generator=self.generator, device=self.device, dtype=dtype)

    def constant(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor itself, marked as the same for every call."""
        self._constants[id(tensor)] = tensor
        return tensor

    def is_constant(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor was marked as the same for every call."""
        return id(tensor) in self._constants
