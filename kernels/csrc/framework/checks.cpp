#include "framework/checks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "framework/overlap.h"

namespace warpwatch {
namespace {

template <class Range>
std::string list_text(const Range& values) {
  std::ostringstream text;
  const char* separator = "";
  text << '[';
  for (const int64_t value : values) {
    text << separator << value;
    separator = ", ";
  }
  text << ']';
  return text.str();
}

// float16, bfloat16 or float32
std::string choice_text(std::initializer_list<ScalarType> dtypes) {
  std::string text;
  size_t left = dtypes.size();
  for (const ScalarType dtype : dtypes) {
    text += dtype_text(dtype);
    --left;
    if (left > 0) text += left == 1 ? " or " : ", ";
  }
  return text;
}

}  // namespace

std::string shape_text(const Tensor& tensor) { return list_text(tensor.sizes()); }

std::string stride_text(const Tensor& tensor) { return list_text(tensor.strides()); }

std::string device_text(const Tensor& tensor) {
  if (tensor.is_cpu()) return "cpu";
  const std::string kind = tensor.is_cuda() ? "cuda" : "another device";
  return kind + ':' + std::to_string(tensor.get_device_index());
}

std::string dtype_text(ScalarType dtype) {
  switch (dtype) {  // Python's names, for the sentence is read there
    case ScalarType::Half: return "float16";
    case ScalarType::BFloat16: return "bfloat16";
    case ScalarType::Float: return "float32";
    case ScalarType::Double: return "float64";
    case ScalarType::Byte: return "uint8";
    case ScalarType::Char: return "int8";
    case ScalarType::Short: return "int16";
    case ScalarType::Int: return "int32";
    case ScalarType::Long: return "int64";
    case ScalarType::Bool: return "bool";
    default: return torch::headeronly::toString(dtype);
  }
}

Dtype kernel_dtype(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Half: return Dtype::kFloat16;
    case ScalarType::BFloat16: return Dtype::kBFloat16;
    case ScalarType::Float: return Dtype::kFloat32;
    default: fail("warpwatch", "no kernel computes in ", dtype_text(tensor.scalar_type()));
  }
}

void Checks::rank(const Argument& argument, int64_t dimensions, const char* meaning) const {
  WARPWATCH_CHECK(argument.tensor.dim() == dimensions, op, argument.name, " must have ", dimensions,
                  " dimensions ", meaning, ", got shape ", shape_text(argument.tensor));
}

void Checks::shape(const Argument& argument, std::initializer_list<int64_t> wanted, const char* meaning) const {
  const auto sizes = argument.tensor.sizes();
  const bool same = sizes.size() == wanted.size() && std::equal(wanted.begin(), wanted.end(), sizes.begin());
  WARPWATCH_CHECK(same, op, argument.name, " must have shape ", list_text(wanted), ' ', meaning, ", got ",
                  list_text(sizes));
}

void Checks::dtype(const Argument& argument, std::initializer_list<ScalarType> wanted) const {
  const ScalarType came = argument.tensor.scalar_type();
  for (const ScalarType choice : wanted) {
    if (came == choice) return;
  }
  fail(op, argument.name, " must be ", choice_text(wanted), ", got ", dtype_text(came));
}

void Checks::same_shape(const Argument& first, const Argument& second) const {
  const auto a = first.tensor.sizes();
  const auto b = second.tensor.sizes();
  WARPWATCH_CHECK(a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin()), op, first.name, " and ",
                  second.name, " differ in shape: ", list_text(a), " against ", list_text(b));
}

void Checks::same_dtype(const Argument& first, const Argument& second) const {
  const ScalarType a = first.tensor.scalar_type();
  const ScalarType b = second.tensor.scalar_type();
  WARPWATCH_CHECK(a == b, op, first.name, " and ", second.name, " differ in dtype: ", dtype_text(a), " against ",
                  dtype_text(b));
}

void Checks::same_device(const Argument& first, const Argument& second) const {
  const Tensor& a = first.tensor;
  const Tensor& b = second.tensor;
  const bool same = a.is_cuda() == b.is_cuda() && a.is_cpu() == b.is_cpu() &&
                    (a.is_cpu() || a.get_device_index() == b.get_device_index());
  WARPWATCH_CHECK(same, op, first.name, " and ", second.name, " must be on one device: ", first.name, " is on ",
                  device_text(a), ", ", second.name, " on ", device_text(b));
}

void Checks::last_dimension_contiguous(const Argument& argument) const {
  const Tensor& tensor = argument.tensor;
  const int64_t last = tensor.dim() - 1;
  WARPWATCH_CHECK(tensor.size(last) <= 1 || tensor.stride(last) == 1, op, "the last dimension of ", argument.name,
                  " must be contiguous (stride 1), got strides ", stride_text(tensor), " for shape ",
                  shape_text(tensor));
}

void Checks::contiguous(const Argument& argument) const {
  WARPWATCH_CHECK(argument.tensor.is_contiguous(), op, argument.name, " must be contiguous, got strides ",
                  stride_text(argument.tensor), " for shape ", shape_text(argument.tensor));
}

void Checks::own_places(const Argument& argument) const {
  const Tensor& tensor = argument.tensor;
  if (tensor.numel() == 0) return;
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, and how often it is taken
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1) steps.emplace_back(tensor.stride(d), tensor.size(d) - 1);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reached = 0;  // the furthest place of the dimensions so far
  for (const auto& [stride, times] : steps) {
    WARPWATCH_CHECK(stride != 0, op, argument.name, " must not be expanded, for it is written to; got strides ",
                    stride_text(tensor));
    WARPWATCH_CHECK(stride > reached, op, argument.name,
                    " must not show one memory in several places, for it is written to; got strides ",
                    stride_text(tensor), " for shape ", shape_text(tensor));
    reached += stride * times;
  }
}

void Checks::apart(std::initializer_list<Argument> written, std::initializer_list<Argument> read) const {
  std::vector<std::pair<const Argument*, Extent>> all;
  for (const Argument& each : written) all.emplace_back(&each, extent_of(each.tensor));
  for (const Argument& each : read) all.emplace_back(&each, extent_of(each.tensor));
  for (size_t i = 0; i < written.size(); ++i) {
    const auto& [first, extent] = all[i];
    for (size_t j = i + 1; j < all.size(); ++j) {
      const auto& [second, other] = all[j];
      if (!extent.meets(other)) continue;
      WARPWATCH_CHECK(!share_memory(first->tensor, second->tensor), op, first->name, " and ", second->name,
                      " must not share memory, for ", j < written.size() ? "both are" : first->name,
                      j < written.size() ? "" : " is", " written to");
    }
  }
}

}  // namespace warpwatch
