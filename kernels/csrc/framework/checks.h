// Checks of a binding's tensors before a kernel sees a pointer.
//
//   const Checks checks{"rope"};
//   checks.rank({"x", x}, 4, "(batch, heads, seq, head_dim)");
//   checks.dtype({"x", x}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
//   checks.shape({"cos", cos}, {seq, half}, "(seq, head_dim / 2)");
//
// Checks particular to one operator use WARPWATCH_CHECK (sentence.h).
#pragma once

#include <initializer_list>
#include <string>

#include "framework/dtype.h"
#include "framework/sentence.h"
#include "framework/torch_stable.h"

namespace warpwatch {

struct Argument {
  const char* name;
  const Tensor& tensor;
};

std::string shape_text(const Tensor& tensor);    // [64, 14336]
std::string stride_text(const Tensor& tensor);   // [14336, 1]
std::string device_text(const Tensor& tensor);   // cuda:0
std::string dtype_text(ScalarType dtype);        // bfloat16

// Whether each row along the last dimension starts on a multiple of `bytes`.
bool rows_start_on(int64_t bytes, const Tensor& tensor);
Tensor with_rows_on(int64_t bytes, const Tensor& tensor);  // the tensor, or an aligned copy
int64_t bytes_past(int64_t boundary, const Tensor& tensor);  // bytes of its first element past the boundary

Dtype kernel_dtype(const Tensor& tensor);  // of a tensor whose dtype has been checked

struct Checks {
  const char* op;

  void rank(const Argument& argument, int64_t dimensions, const char* meaning) const;
  void shape(const Argument& argument, std::initializer_list<int64_t> wanted, const char* meaning) const;
  void dtype(const Argument& argument, std::initializer_list<ScalarType> wanted) const;
  void same_shape(const Argument& first, const Argument& second) const;
  void same_dtype(const Argument& first, const Argument& second) const;
  void same_device(const Argument& first, const Argument& second) const;
  void last_dimension_contiguous(const Argument& argument) const;  // if that dimension is 1, any stride is accepted
  void contiguous(const Argument& argument) const;
  // For a tensor that is written to: no two of its elements share memory. Dimensions may have any order and gaps, but each
  // stride must step over the whole extent of the dimensions with smaller strides.
  void own_places(const Argument& argument) const;
  // The written tensors share no memory with each other, nor with the tensors that are read.
  void apart(std::initializer_list<Argument> written, std::initializer_list<Argument> read) const;
};

}  // namespace warpwatch
