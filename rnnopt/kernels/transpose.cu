// y = xᵀ: the weights of a layer, turned once so that all its steps multiply by
// an untransposed matrix (paper, "pre-transposing the weight matrix").
//
// x is rows × cols, y is cols × rows, both row-major with leading dimensions.
//
// A tile goes through shared memory, so that both the reads and the writes of a
// warp are contiguous; the odd row length keeps its columns in different banks.
// All threads of a block meet at both barriers, whatever the block size.
#include "common.cuh"

#define TILE 32

// flops per element: 0
extern "C" __global__ void transpose(int rows, int cols, const float* __restrict__ x, int x_ld, float* __restrict__ y, int y_ld)
{
    __shared__ float tile[TILE][TILE + 1];
    for (int top = blockIdx.y * TILE; top < rows; top += gridDim.y * TILE)
        for (int left = blockIdx.x * TILE; left < cols; left += gridDim.x * TILE) {
            int height = rows - top < TILE ? rows - top : TILE;
            int width = cols - left < TILE ? cols - left : TILE;
            for (int k = threadIdx.x; k < height * TILE; k += blockDim.x)
                if (k % TILE < width)
                    tile[k / TILE][k % TILE] = x[(top + k / TILE) * x_ld + left + k % TILE];
            __syncthreads();
            for (int k = threadIdx.x; k < width * TILE; k += blockDim.x)
                if (k % TILE < height)
                    y[(left + k / TILE) * y_ld + top + k % TILE] = tile[k % TILE][k / TILE];
            __syncthreads();
        }
}
