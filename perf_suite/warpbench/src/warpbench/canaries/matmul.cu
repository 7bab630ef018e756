// matmul.cu: out[m, n] = sum over k of x[m, k] * weight[n, k], fp16 in and out, summed in fp32 on tensor cores
//   x (gridDim.y * 128, depth), weight (gridDim.x * 128, depth), out (gridDim.y * 128, gridDim.x * 128): contiguous,
//   on 16-byte boundaries; depth a multiple of 32
//   2 * M * N * depth FLOP, 2 * (M * depth + N * depth + M * N) bytes: bound by the tensor cores and the SM clock
//
// Plain on purpose, and only with instructions that every GPU since Turing has. A block makes a tile of 128 x 128 with
// two rows of four warps, a warp 64 x 32 of it. Two blocks on an SM hide each other's loads.
//
// Compiled once, into matmul.ptx; see __init__.py before changing anything here.
#include <cuda_fp16.h>

constexpr int kThreads = 256;
constexpr int kTile = 128;           // rows of x, and rows of weight, of a block
constexpr int kDepth = 32;           // elements of k staged in shared memory at a time
constexpr int kPieces = kDepth / 8;  // 16-byte pieces of a staged row
// Rows 20 words apart: the eight rows that a fragment reads begin at banks 0, 20, 8, 28, 16, 4, 24, 12, so that its four
// words of each row meet no other row's.
constexpr int kPitch = kDepth / 2 + 4;
constexpr int kWarpRows = 64;
constexpr int kWarpColumns = 32;

// d += a b for a 16 x 8, b 8 x 8. Lane 4 g + t holds of a the rows g and g + 8 at k = 2 t, 2 t + 1, of b the column g at
// the same k, and of d the rows g and g + 8 at the columns 2 t, 2 t + 1 (PTX ISA, "mma.m16n8k8").
__device__ void multiply_add(float (&d)[4], const unsigned (&a)[2], unsigned b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
}

// The 128 rows of `from` at its columns 0 to 31 into shared memory, 16 bytes a thread at a time.
__device__ void stage(unsigned (&to)[kTile][kPitch], const __half* from, int depth) {
#pragma unroll
  for (int i = 0; i < kTile * kPieces / kThreads; ++i) {
    const int piece = i * kThreads + threadIdx.x;
    const int row = piece / kPieces, column = piece % kPieces;
    const size_t offset = size_t(row) * depth + 8 * column;
    *reinterpret_cast<uint4*>(&to[row][4 * column]) = *reinterpret_cast<const uint4*>(from + offset);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 2)
    canary_matmul(const __half* __restrict__ x, const __half* __restrict__ weight, __half* __restrict__ out,
                  int depth) {
  __shared__ __align__(16) unsigned rows[kTile][kPitch];
  __shared__ __align__(16) unsigned columns[kTile][kPitch];
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const int warp_row = warp / 4 * kWarpRows, warp_column = warp % 4 * kWarpColumns;
  const size_t block_row = size_t{blockIdx.y} * kTile, block_column = size_t{blockIdx.x} * kTile;

  float sum[4][4][4] = {};  // 16-row step, 8-column step, fragment
  for (int k = 0; k < depth; k += kDepth) {
    stage(rows, x + block_row * depth + k, depth);
    stage(columns, weight + block_column * depth + k, depth);
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kDepth / 8; ++step) {
      const int word = 4 * step + t;
      unsigned a[4][2], b[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        a[i][0] = rows[warp_row + 16 * i + g][word];
        a[i][1] = rows[warp_row + 16 * i + g + 8][word];
        b[i] = columns[warp_column + 8 * i + g][word];
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) multiply_add(sum[i][j], a[i], b[j]);
      }
    }
    __syncthreads();
  }

  const size_t width = size_t{gridDim.x} * kTile;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      __half* corner = out + (block_row + warp_row + 16 * i + g) * width + block_column + warp_column + 8 * j + 2 * t;
      *reinterpret_cast<__half2*>(corner) = __floats2half2_rn(sum[i][j][0], sum[i][j][1]);
      *reinterpret_cast<__half2*>(corner + 8 * width) = __floats2half2_rn(sum[i][j][2], sum[i][j][3]);
    }
  }
}
