// y = the sum of the rows of x: the gradient of a bias from that of what it was added to.
//
//   x          rows × cols
//   before, y  cols          (one row; before may be y)
//
// A block has TILE columns, a thread some of them, and goes down all rows: so the order of additions
// is the same for any grid and block. Rows are summed in chunks and the chunks' sums then, so that of
// many rows the last don't drown in the sum of the first.
#include "common.cuh"

#define TILE 128
#define CHUNK 64

// flops per element: 1
extern "C" __global__ void column_sum(
    int rows, int cols,
    const float* __restrict__ x, int x_ld,
    float* y, int y_ld)
{
    if (blockIdx.y > 0)
        return;
    for (int left = blockIdx.x * TILE; left < cols; left += gridDim.x * TILE) {
        const int width = cols - left < TILE ? cols - left : TILE;
        float sum[TILE], part[TILE];
        INDEPENDENT for (int j = threadIdx.x; j < width; j += blockDim.x)
            sum[j] = 0;
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
extern "C" __global__ void column_sum_add(
    int rows, int cols,
    const float* __restrict__ x, int x_ld,
    const float* before, int before_ld,
    float* y, int y_ld)
{
    if (blockIdx.y > 0)
        return;
    for (int left = blockIdx.x * TILE; left < cols; left += gridDim.x * TILE) {
        const int width = cols - left < TILE ? cols - left : TILE;
        float sum[TILE], part[TILE];
        INDEPENDENT for (int j = threadIdx.x; j < width; j += blockDim.x)
            sum[j] = before[left + j];
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
