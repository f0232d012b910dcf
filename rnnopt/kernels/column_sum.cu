// y = the sum of the rows of x: the gradient of a bias from that of what it was added to.
//
//   x          rows × cols
//   before, y  cols          (one row; before may be y)
//
// A block has TILE columns, a thread some of them, and goes down all rows: so the order of additions
// is the same for any grid and block, and the threads of a warp read side by side. Rows are summed in
// chunks and the chunks' sums then, so that of many rows the last don't drown in the sum of the first.
//
// The sums are in shared memory, since a thread has as many as its block is small; it touches no
// other thread's, so there is nothing to wait for.
#include "common.cuh"

#define TILE 128
#define CHUNK 64

// From nothing where there is no `before`.
__device__ inline void sum_rows(int rows, int cols, const float* __restrict__ x, int x_ld, const float* before, float* y)
{
    __shared__ float sum[TILE];
    __shared__ float part[TILE];
    if (blockIdx.y > 0)
        return;
    for (int left = blockIdx.x * TILE; left < cols; left += gridDim.x * TILE) {
        const int width = cols - left < TILE ? cols - left : TILE;
        INDEPENDENT for (int j = threadIdx.x; j < width; j += blockDim.x)
            sum[j] = before ? before[left + j] : 0;
        for (int top = 0; top < rows; top += CHUNK) {
            const int last = rows - top < CHUNK ? rows : top + CHUNK;
            INDEPENDENT for (int j = threadIdx.x; j < width; j += blockDim.x)
                part[j] = 0;
            for (int r = top; r < last; r++)
                INDEPENDENT for (int j = threadIdx.x; j < width; j += blockDim.x)
                    part[j] += x[r * x_ld + left + j];
            INDEPENDENT for (int j = threadIdx.x; j < width; j += blockDim.x)
                sum[j] += part[j];
        }
        INDEPENDENT for (int j = threadIdx.x; j < width; j += blockDim.x)
            y[left + j] = sum[j];
    }
}

// flops per element: 1
extern "C" __global__ void column_sum(
    int rows, int cols,
    const float* __restrict__ x, int x_ld,
    float* y, int y_ld)
{
    sum_rows(rows, cols, x, x_ld, nullptr, y);
}

// flops per element: 1
extern "C" __global__ void column_sum_add(
    int rows, int cols,
    const float* __restrict__ x, int x_ld,
    const float* before, int before_ld,
    float* y, int y_ld)
{
    sum_rows(rows, cols, x, x_ld, before, y);
}
