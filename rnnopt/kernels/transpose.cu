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
    // Threads form rows of TILE lanes; of a block that has none to fill one, all are lanes of the first. The rest is idle.
    const int lanes = blockDim.x < TILE ? blockDim.x : TILE, lane_rows = blockDim.x / lanes;
    const int lane = threadIdx.x % lanes, lane_row = threadIdx.x / lanes;
    const int first = lane_row < lane_rows ? lane_row : TILE;
    for (int top = blockIdx.y * TILE; top < rows; top += gridDim.y * TILE)
        for (int left = blockIdx.x * TILE; left < cols; left += gridDim.x * TILE) {
            int height = rows - top < TILE ? rows - top : TILE;
            int width = cols - left < TILE ? cols - left : TILE;
            for (int i = first; i < height; i += lane_rows)
                INDEPENDENT for (int j = lane; j < width; j += lanes)
                    tile[i][j] = x[(top + i) * x_ld + left + j];
            __syncthreads();
            for (int j = first; j < width; j += lane_rows)
                INDEPENDENT for (int i = lane; i < height; i += lanes)
                    y[(left + j) * y_ld + top + i] = tile[i][j];
            __syncthreads();
        }
}
