// The part of PyTorch that bindings may use: its stable ABI only.
//   Include this instead of any torch header. A .cu file includes no torch header at all.
#pragma once

// Makes shim.h declare the CUDA entry points; they exist in a torch built with CUDA and are resolved weakly (cuda.h).
#ifndef USE_CUDA
#define USE_CUDA
#endif
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

namespace warpwatch {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

}  // namespace warpwatch
