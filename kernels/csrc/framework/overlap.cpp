#include "framework/overlap.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace warpwatch {
namespace {

// Steps of one length in bytes: the first tensor takes up to `most` of them, the second up to -`least`.
struct Step {
  int64_t bytes;
  int64_t least;  // 0 or below
  int64_t most;   // 0 or above
};

using Range = std::pair<int64_t, int64_t>;  // least and most, by the length of a step

void take_steps(const Tensor& tensor, bool is_first, std::map<int64_t, Range, std::greater<>>& steps) {
  const int64_t element = static_cast<int64_t>(tensor.element_size());
  const auto take = [&](int64_t bytes, int64_t times) {
    if (times > 0 && bytes > 0) (is_first ? steps[bytes].second += times : steps[bytes].first -= times);
  };
  take(1, element - 1);
  for (int64_t d = 0; d < tensor.dim(); ++d) take(tensor.stride(d) * element, tensor.size(d) - 1);
}

int64_t divided_down(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// Whether steps from `at` on can add up to `bytes`. Where each step is longer than all shorter ones together, as in a
// tensor and its neighbour in one buffer, at most two numbers of it come into question.
bool can_reach(const std::vector<Step>& steps, size_t at, int64_t bytes, int& tries) {
  if (at == steps.size()) return bytes == 0;
  if (--tries < 0) return true;
  const Step& step = steps[at];
  int64_t least = 0;  // of the shorter steps together
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

}  // namespace

Extent extent_of(const Tensor& tensor) {
  const int64_t begin = begin_of(tensor);
  if (tensor.numel() == 0) return {begin, begin};
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  int64_t elements = 1;
  for (size_t d = 0; d < sizes.size(); ++d) elements += strides[d] * (sizes[d] - 1);
  return {begin, begin + elements * static_cast<int64_t>(tensor.element_size())};
}

bool share_memory(const Tensor& first, const Tensor& second) {
  std::map<int64_t, Range, std::greater<>> ranges;
  take_steps(first, true, ranges);
  take_steps(second, false, ranges);
  std::vector<Step> steps;
  for (const auto& [bytes, range] : ranges) steps.push_back({bytes, range.first, range.second});
  int tries = 10000;
  return can_reach(steps, 0, begin_of(second) - begin_of(first), tries);
}

}  // namespace warpwatch
