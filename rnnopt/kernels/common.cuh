// What every kernel shares: the grid-stride loops and the activations.
//
// The files of this folder are CUDA C++ that nvcc compiles as they are. The C++
// compiler builds them too, with one thread per block (devices/host/host.h) or
// with real threads under a sanitiser (devices/host/checked.h); those headers
// are included first and define RNNOPT_HOST. A kernel is therefore right for
// any grid and any block, 1 included: it loops by these macros, never returns
// before a barrier, and never uses a float atomic.
#pragma once

// Blocks share the rows; the threads of the blocks share the columns.
#define FOR_EACH_ROW(row, rows) \
    for (int row = blockIdx.y; row < (rows); row += gridDim.y)
#define FOR_EACH_COLUMN(col, cols) \
    INDEPENDENT for (int col = blockIdx.x * blockDim.x + threadIdx.x; col < (cols); col += gridDim.x * blockDim.x)

#ifndef RNNOPT_HOST
// Iterations of a column loop don't depend on each other: a compiler for a CPU
// needs to be told before it vectorises; nvcc has no use for it.
#define INDEPENDENT

__device__ inline float exp_of(float x) { return __expf(x); }
__device__ inline float tanh_of(float x) { return tanhf(x); }
__device__ inline float sqrt_of(float x) { return sqrtf(x); }
#endif

__device__ inline float sigmoid_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }
