// The part of PyTorch a binding may see: its stable ABI, and nothing beside it.
//   Include this in place of any torch header. A .cu file includes no torch at all.
#pragma once

// Makes shim.h declare the CUDA entry points; they exist in a torch built with CUDA and are looked up weakly (cuda.h).
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
