// CUDA's words for a C++ compiler, with a real thread for each of CUDA's.
//
// Included before a .cu file in a build with a sanitiser (checked/). The
// library that this makes is run by checked/runner.cpp, which gives every thread
// its place, its block's barrier and its block's shared arrays. No heavy header
// is included here, so that a changed kernel is rebuilt in a second.
#pragma once
#define RNNOPT_HOST
#include <math.h>

#include <cstddef>
#include <utility>

namespace checked {

struct Index { unsigned x, y, z; };

struct Thread {
    Index thread, block, block_size, grid_size;
    void* const* shared;             // the block's shared arrays
    void* barrier;                   // the block's barrier
    void (*meet)(void* barrier, unsigned thread, int line);
};

static thread_local Thread self;

// Sizes of this file's shared arrays in bytes, 0 after the last. They are known
// before any thread begins, so that no thread has to lock anything to find its
// arrays: a lock would order the threads, and hide what the kernel leaves unordered.
constexpr std::size_t MAX_SHARED = 64;
static std::size_t shared_sizes[MAX_SHARED + 1];

template <class Array, std::size_t number>
struct Registered {
    static_assert(number < MAX_SHARED, "more shared arrays in one file than a checked build has room for");
    static inline const bool done = (shared_sizes[number] = sizeof(Array)) > 0;
};

// `__shared__ float tile[32];` is made a reference to this by checked/build.py.
template <class Array, std::size_t number>
Array& shared()
{
    (void)Registered<Array, number>::done;
    return *static_cast<Array*>(self.shared[number]);
}

template <class... Args, std::size_t... N>
void unpack(void (*kernel)(Args...), void* const* args, std::index_sequence<N...>)
{
    kernel(*static_cast<Args*>(args[N])...);
}

// Arguments come as pointers to their values, as cuLaunchKernel takes them.
template <class... Args>
void run(void (*kernel)(Args...), void* const* args, const Thread& thread)
{
    self = thread;
    unpack(kernel, args, std::index_sequence_for<Args...>{});
}

}  // namespace checked

// ENTRY(k) makes k__entry(args, thread): run k as that thread.
#define ENTRY(kernel)                                                                 \
    extern "C" void kernel##__entry(void* const* args, const checked::Thread* thread) \
    {                                                                                 \
        checked::run(kernel, args, *thread);                                          \
    }
#define SHARED_SIZES \
    extern "C" const std::size_t* rnnopt_shared_sizes() { return checked::shared_sizes; }

#define threadIdx checked::self.thread
#define blockIdx checked::self.block
#define blockDim checked::self.block_size
#define gridDim checked::self.grid_size
#define __global__
#define __device__ static
#define __launch_bounds__(...)
#define __syncthreads() checked::self.meet(checked::self.barrier, checked::self.thread.x, __LINE__)
#define __expf expf
#define INDEPENDENT

static inline float exp_of(float x) { return expf(x); }
static inline float tanh_of(float x) { return tanhf(x); }
static inline float sqrt_of(float x) { return sqrtf(x); }
