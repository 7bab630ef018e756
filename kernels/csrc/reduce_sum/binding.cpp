// Binding of torch.ops.warpwatch.reduce_sum: checks its tensor, merges axes into (outer, reduced, inner), and calls the CPU or
// the CUDA version once per group of neighbouring reduced axes.
#include "reduce_sum/reduce_sum.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "framework/checks.h"
#include "framework/cuda.h"
#include "reduce_sum/reduce_sum_tiles.h"

namespace warpwatch {
namespace {

constexpr Checks kChecks{"reduce_sum"};

// Neighbouring axes of a contiguous tensor that are all reduced or all kept.
struct Group {
  int64_t size;
  bool summed;
};

std::vector<bool> summed_axes(const Tensor& x, const std::vector<int64_t>& dims) {
  const int64_t rank = x.dim();
  WARPWATCH_CHECK(!dims.empty() || rank == 0, "reduce_sum", "dim must name at least one dimension, got none");
  std::vector<bool> summed(rank, false);
  for (const int64_t dim : dims) {
    WARPWATCH_CHECK(dim >= -rank && dim < rank, "reduce_sum", "dim must lie in [", -rank, ", ", rank - 1, "], got ",
                    dim, " for x of shape ", shape_text(x));
    const int64_t axis = dim < 0 ? dim + rank : dim;
    WARPWATCH_CHECK(!summed[axis], "reduce_sum", "dim names dimension ", axis, " twice");
    summed[axis] = true;
  }
  return summed;
}

std::vector<Group> merged(const std::vector<Group>& axes) {
  std::vector<Group> groups;
  for (const Group& axis : axes) {
    if (axis.size == 1) continue;
    if (!groups.empty() && groups.back().summed == axis.summed) {
      groups.back().size *= axis.size;
    } else {
      groups.push_back(axis);
    }
  }
  return groups;
}

// `reduce` sums one (outer, reduced, inner) into p.out; it may allocate its workspace like `x`.
template <class Reduce>
Tensor reduce_sum(const Tensor& x, const std::vector<int64_t>& dims, bool keepdim, const Reduce& reduce) {
  kChecks.dtype({"x", x}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  const std::vector<bool> summed = summed_axes(x, dims);
  std::vector<int64_t> out_sizes;
  std::vector<Group> axes;
  for (int64_t i = 0; i < x.dim(); ++i) {
    axes.push_back({x.size(i), summed[i]});
    if (!summed[i]) out_sizes.push_back(x.size(i));
    if (summed[i] && keepdim) out_sizes.push_back(1);
  }
  Tensor out = torch::stable::new_empty(x, out_sizes);
  if (out.numel() == 0) return out;
  if (x.numel() == 0) return torch::stable::zero_(out);

  Tensor left = x.is_contiguous() ? x : torch::stable::contiguous(x);
  Dtype dtype = kernel_dtype(x);
  std::vector<Group> groups = merged(axes);
  const auto is_summed = [](const Group& group) { return group.summed; };
  for (bool last = false; !last;) {
    // The largest first, so that the least is left to read again.
    auto next = groups.end();
    for (auto group = groups.begin(); group != groups.end(); ++group) {
      if (group->summed && (next == groups.end() || group->size > next->size)) next = group;
    }
    ReduceSumParams p{};
    p.outer = p.reduced = p.inner = p.splits = 1;
    for (auto group = groups.begin(); group != groups.end(); ++group) {
      (group < next ? p.outer : group == next ? p.reduced : p.inner) *= group->size;
    }
    if (next != groups.end()) groups.erase(next);
    last = std::none_of(groups.begin(), groups.end(), is_summed);
    groups = merged(groups);
    const Tensor sums = last ? out : torch::stable::new_empty(x, {p.outer * p.inner}, ScalarType::Float);
    p.x = left.data_ptr();
    p.out = sums.data_ptr();
    p.dtype = dtype;
    p.out_dtype = last ? kernel_dtype(x) : Dtype::kFloat32;
    reduce(p);
    left = sums;
    dtype = Dtype::kFloat32;
  }
  return out;
}

Tensor reduce_sum_on_cpu(const Tensor& x, std::vector<int64_t> dims, bool keepdim) {
  return reduce_sum(x, dims, keepdim, reduce_sum_cpu);
}

#if WARPWATCH_WITH_CUDA
Tensor reduce_sum_on_cuda(const Tensor& x, std::vector<int64_t> dims, bool keepdim) {
  const OnDeviceOf gpu(x);
  return reduce_sum(x, dims, keepdim, [&](ReduceSumParams& p) {
    const int elements = p.dtype == Dtype::kFloat32 ? 4 : 8;
    p.splits = reduce_sum_splits(p.outer, p.reduced, p.inner, elements);
    std::optional<Tensor> workspace;  // PyTorch's allocator reuses it in stream order
    if (p.splits > 1) {
      workspace = torch::stable::new_empty(x, {p.outer * p.splits * p.inner}, ScalarType::Float);
      p.workspace = static_cast<float*>(workspace->data_ptr());
    }
    check_launch("reduce_sum", reduce_sum_cuda(p, gpu.stream()));
  });
}
#endif

}  // namespace
}  // namespace warpwatch

WARPWATCH_OPERATOR(reduce_sum_on_cpu, reduce_sum_on_cuda,
                   "reduce_sum(Tensor x, int[] dim, bool keepdim=False) -> Tensor");
