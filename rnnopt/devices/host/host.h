// CUDA's words for a C++ compiler, with one thread per block.
//
// Included before a .cu file. The thread's index is 0 and the block's size 1,
// both known at compile time, so a grid-stride loop over columns becomes a plain
// loop that vectorises. Blocks share the rows; the caller says which it is.
#pragma once
#define RNNOPT_HOST
#include <cstddef>
#include <utility>

struct ThreadIndex { static constexpr int x = 0; };
struct BlockSize { static constexpr int x = 1; };
struct BlockIndex { static constexpr int x = 0; int y; };
struct GridSize { static constexpr int x = 1; int y; };

static constexpr ThreadIndex threadIdx{};
static constexpr BlockSize blockDim{};
static thread_local BlockIndex blockIdx{0};
static thread_local GridSize gridDim{1};

#define __global__
#define __device__ static
#define __shared__  // one thread per block: an array of its own
#define __syncthreads()

#include "host_math.h"

// Arguments come as an array of pointers to their values, as cuLaunchKernel
// takes them; the kernel's own signature says what they are.
template <class... Args, std::size_t... N>
static void unpack(void (*kernel)(Args...), void* const* args, std::index_sequence<N...>)
{
    kernel(*static_cast<Args*>(args[N])...);
}

// ENTRY(k) makes k__entry(args, block, blocks): run one of `blocks` blocks of k.
#define ENTRY(kernel)                                                        \
    extern "C" void kernel##__entry(void* const* args, int block, int blocks) \
    {                                                                        \
        blockIdx.y = block;                                                  \
        gridDim.y = blocks;                                                  \
        auto run = []<class... Args>(void (*k)(Args...), void* const* a) {   \
            unpack(k, a, std::index_sequence_for<Args...>{});                \
        };                                                                   \
        run(kernel, args);                                                   \
    }
