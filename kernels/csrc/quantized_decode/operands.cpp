#include "quantized_decode/operands.h"

namespace warpwatch {

void QuantizedKvOperands::check_new(const Tensor& k, const Tensor& v) const {
  const Checks checks{op};
  checks.rank({"k", k}, 4, "(batch, heads_kv, seq, head_dim)");
  checks.dtype({"k", k}, {ScalarType::Half, ScalarType::BFloat16, ScalarType::Float});
  checks.same_shape({"k", k}, {"v", v});
  checks.same_dtype({"k", k}, {"v", v});
  checks.same_device({"k", k}, {"v", v});
  checks.last_dimension_contiguous({"k", k});
  checks.last_dimension_contiguous({"v", v});
  WARPWATCH_CHECK(k.size(3) > 0 && k.size(3) % 8 == 0 && k.size(3) <= 256, op,
                  "head_dim must be a multiple of 8 up to 256, got ", k.size(3));
}

void QuantizedKvOperands::check_part(const Argument& first, const Argument& argument, ScalarType dtype,
                                     std::initializer_list<int64_t> shape, const char* meaning) const {
  const Checks checks{op};
  checks.dtype(argument, {dtype});
  checks.shape(argument, shape, meaning);
  checks.same_device(first, argument);
  checks.last_dimension_contiguous(argument);
}

void QuantizedKvOperands::check_int4_cache(const Argument& first, const Int4CacheTensors& cache, int64_t batch,
                                           int64_t heads_kv, int64_t head_dim) const {
  const Checks checks{op};
  const int64_t capacity = cache.k_codes.size(2);
  WARPWATCH_CHECK(head_dim > 0 && head_dim % 32 == 0 && head_dim <= 256, op,
                  "head_dim must be a multiple of 32, a group of channels, up to 256, got ", head_dim);
  WARPWATCH_CHECK(capacity % 32 == 0 && capacity <= kLongest, op,
                  "capacity must be a multiple of 32, a group of tokens, up to ", kLongest, ", got k_codes of shape ",
                  shape_text(cache.k_codes));
  const ScalarType dtype = first.tensor.scalar_type();
  for (const Argument& codes : {Argument{"k_codes", cache.k_codes}, Argument{"v_codes", cache.v_codes}}) {
    check_part(first, codes, ScalarType::Byte, {batch, heads_kv, capacity, head_dim / 2},
               "(batch, heads_kv, capacity, head_dim / 2)");
    checks.contiguous(codes);
  }
  check_part(first, {"k_scales", cache.k_scales}, ScalarType::Half, {batch, heads_kv, capacity / 32, 2, head_dim},
             "(batch, heads_kv, capacity / 32, 2, head_dim)");
  check_part(first, {"v_scales", cache.v_scales}, ScalarType::Half, {batch, heads_kv, capacity, head_dim / 32, 2},
             "(batch, heads_kv, capacity, head_dim / 32, 2)");
  checks.contiguous({"k_scales", cache.k_scales});
  checks.contiguous({"v_scales", cache.v_scales});
  for (const Argument& window : {Argument{"k_window", cache.k_window}, Argument{"v_window", cache.v_window}}) {
    check_part(first, window, dtype, {batch, heads_kv, 32, head_dim}, "(batch, heads_kv, 32, head_dim)");
    checks.contiguous(window);
  }
}

void QuantizedKvOperands::check_int4_boundaries(const Int4CacheTensors& cache) const {
  for (const Argument& part :
       {Argument{"k_codes", cache.k_codes}, Argument{"v_codes", cache.v_codes}, Argument{"k_scales", cache.k_scales},
        Argument{"v_scales", cache.v_scales}, Argument{"k_window", cache.k_window},
        Argument{"v_window", cache.v_window}}) {
    const int64_t past = bytes_past(16, part.tensor);
    WARPWATCH_CHECK(past == 0, op, part.name, " must start on a 16-byte boundary, for it is read 16 bytes at a time; ",
                    "got a start ", past, " bytes past one");
  }
}

void QuantizedKvOperands::check_lengths(const Argument& first, const Tensor& lengths, int64_t batch) const {
  const Checks checks{op};
  checks.dtype({"lengths", lengths}, {ScalarType::Int});
  checks.shape({"lengths", lengths}, {batch}, "(batch)");
  checks.same_device(first, {"lengths", lengths});
  checks.contiguous({"lengths", lengths});
}

void QuantizedKvOperands::check_boundaries(const Argument& argument, int64_t bytes) const {
  const Tensor& tensor = argument.tensor;
  WARPWATCH_CHECK(rows_start_on(bytes, tensor), op, "each row of ", argument.name, " must start on a boundary of ", bytes,
                  " bytes, for it is moved in such pieces; got strides ", stride_text(tensor), " and a start ",
                  bytes_past(bytes, tensor), " bytes past one");
}

void QuantizedKvOperands::check_queries_on_gpu(const Tensor& q) const {
  WARPWATCH_CHECK(q.scalar_type() != ScalarType::Float, op,
                  "q is float32; on a GPU codes are multiplied in float16 units, so it must be float16 or bfloat16");
  WARPWATCH_CHECK(q.size(3) == 64 || q.size(3) == 128 || q.size(3) == 256, op,
                  "head_dim must be 64, 128 or 256 on a GPU, got ", q.size(3));
}

void QuantizedKvOperands::check_new_on_gpu(const Tensor& k, const Tensor& v) const {
  check_boundaries({"k", k}, 16);
  check_boundaries({"v", v}, 16);
}

}  // namespace warpwatch
