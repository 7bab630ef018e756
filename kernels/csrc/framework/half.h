// fp16 and bf16 for CPU kernels: PyTorch's header-only types, without the rest of its headers.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

namespace warpwatch {

using BFloat16 = torch::headeronly::BFloat16;
using Half = torch::headeronly::Half;

}  // namespace warpwatch
