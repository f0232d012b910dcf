// What a solver along time needs beside the cells: steps from their order into the layout of levels and back, and sums for its norms.
//
// Steps are laid out by their place in an interval first, so that all intervals' steps at one place are rows of one
// matrix: (outer, inner, radix) becomes (outer, radix, inner), pass after pass.
#include "common.cuh"

// out[o, d, k] = source[o, k, d], for inner k's and radix d's; of each step `batch` rows.
//   source  rows × cols; rows are batch rows of each step. What is meant is `offset` steps earlier; of steps before the
//           first, and after `valid` of them, zeros are
//   out     rows × cols (of the source there may be more, or fewer)
//
// flops per element: 0
extern "C" __global__ void exchange_steps(
    int rows, int cols,
    const float* __restrict__ source, int source_ld,
    float* __restrict__ out, int out_ld,
    int batch, int inner, int radix, int offset, int valid)
{
    FOR_EACH_ROW(r, rows) {
        const int step = r / batch, block = step / (radix * inner), d = step / inner % radix, k = step % inner;
        const int from = (block * inner + k) * radix + d - offset;
        const bool there = from >= 0 && from < valid;
        const float* row = source + (there ? from * batch + r % batch : 0) * source_ld;
        FOR_EACH_COLUMN(j, cols)
            out[r * out_ld + j] = there ? row[j] : 0.0f;
    }
}

// What a norm is made of, a number for each row: the sum over its columns of (x - y)², and of y². One thread of a block sums a row.
//   x, y      rows × cols
//   residual  rows × 1
//   size      rows × 1
//
// flops per element: 5
extern "C" __global__ void squared_sums(
    int rows, int cols,
    const float* __restrict__ x, int x_ld,
    const float* __restrict__ y, int y_ld,
    float* __restrict__ residual, int residual_ld,
    float* __restrict__ size, int size_ld)
{
    FOR_EACH_ROW(r, rows) {
        if (blockIdx.x == 0 && threadIdx.x == 0) {
            float difference = 0, whole = 0;
            for (int j = 0; j < cols; j++) {
                const float a = x[r * x_ld + j], b = y[r * y_ld + j];
                difference += (a - b) * (a - b);
                whole += b * b;
            }
            residual[r * residual_ld] = difference;
            size[r * size_ld] = whole;
        }
    }
}
