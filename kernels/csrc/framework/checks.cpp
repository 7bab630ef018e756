#include "framework/checks.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

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

// A tensor's address range, from its first to its last byte, including gaps between its elements.
struct Extent {
  int64_t begin, end;

  bool meets(const Extent& other) const { return begin < other.end && other.begin < end; }
};

// Steps of equal length in bytes: the first tensor takes up to `most` of them, the second up to -`least`.
struct Step {
  int64_t bytes;
  int64_t least;  // <= 0
  int64_t most;   // >= 0
};

using Range = std::pair<int64_t, int64_t>;  // least and most steps, keyed by step length

void take_steps(const Tensor& tensor, bool is_first, std::map<int64_t, Range, std::greater<>>& steps) {
  const int64_t element = static_cast<int64_t>(tensor.element_size());
  const auto take = [&](int64_t bytes, int64_t times) {
    if (times > 0 && bytes > 0) (is_first ? steps[bytes].second += times : steps[bytes].first -= times);
  };
  take(1, element - 1);
  for (int64_t d = 0; d < tensor.dim(); ++d) take(tensor.stride(d) * element, tensor.size(d) - 1);
}

int64_t divided_down(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// Whether steps from `at` on can add up to `bytes`. If each step is longer than all shorter ones together, as for a tensor and
// its neighbour in one buffer, at most two counts of it are candidates.
bool can_reach(const std::vector<Step>& steps, size_t at, int64_t bytes, int& tries) {
  if (at == steps.size()) return bytes == 0;
  if (--tries < 0) return true;
  const Step& step = steps[at];
  int64_t least = 0;  // of all shorter steps together
  int64_t most = 0;
  for (size_t i = at + 1; i < steps.size(); ++i) {
    least += steps[i].bytes * steps[i].least;
    most += steps[i].bytes * steps[i].most;
  }
  const int64_t first = std::max(step.least, -divided_down(most - bytes, step.bytes));
  const int64_t last = std::min(step.most, divided_down(bytes - least, step.bytes));
  for (int64_t times = first; times <= last; ++times) {
    if (can_reach(steps, at + 1, bytes - times * step.bytes, tries)) return true;
  }
  return false;
}

int64_t begin_of(const Tensor& tensor) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data_ptr())); }

// begin == end for a tensor without elements.
Extent extent_of(const Tensor& tensor) {
  const int64_t begin = begin_of(tensor);
  if (tensor.numel() == 0) return {begin, begin};
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  int64_t elements = 1;
  for (size_t d = 0; d < sizes.size(); ++d) elements += strides[d] * (sizes[d] - 1);
  return {begin, begin + elements * static_cast<int64_t>(tensor.element_size())};
}

// Whether two non-empty tensors with overlapping address ranges share a byte. (k and v may be interleaved row by row in one
// buffer without sharing any.) Also true for layouts so irregular that an exact answer would take long.
bool share_memory(const Tensor& first, const Tensor& second) {
  std::map<int64_t, Range, std::greater<>> ranges;
  take_steps(first, true, ranges);
  take_steps(second, false, ranges);
  std::vector<Step> steps;
  for (const auto& [bytes, range] : ranges) steps.push_back({bytes, range.first, range.second});
  int tries = 10000;
  return can_reach(steps, 0, begin_of(second) - begin_of(first), tries);
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
  switch (dtype) {  // Python's names, since the message is read there
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

int64_t bytes_past(int64_t boundary, const Tensor& tensor) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % static_cast<uintptr_t>(boundary));
}

bool rows_start_on(int64_t bytes, const Tensor& tensor) {
  const int64_t element = static_cast<int64_t>(tensor.element_size());
  bool whole = bytes_past(bytes, tensor) == 0;
  for (int64_t d = 0; d + 1 < tensor.dim(); ++d) {
    whole = whole && (tensor.size(d) <= 1 || tensor.stride(d) * element % bytes == 0);
  }
  return whole;
}

Tensor with_rows_on(int64_t bytes, const Tensor& tensor) {
  if (rows_start_on(bytes, tensor)) return tensor;
  Tensor copy = torch::stable::new_empty(tensor, tensor.sizes());
  torch::stable::copy_(copy, tensor);
  return copy;
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
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, and number of steps along it
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1) steps.emplace_back(tensor.stride(d), tensor.size(d) - 1);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reached = 0;  // the furthest offset of the dimensions so far
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
