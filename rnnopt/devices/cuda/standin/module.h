// A .cu file as a module of the stand-in driver: the host's build of it, with a table of its kernels.
//
// Included after host.h and before the file. PyCUDA packs a launch's arguments into one buffer, each at the
// natural alignment of its type; the kernel's own signature says which they are.
#pragma once
#include <cstring>
#include <tuple>
#include <type_traits>

struct Kernel { const char* name; void (*run)(const char* arguments, int grid_x, int grid_y); std::size_t bytes; const int* pointers; };

template <class... Args>
struct Packed {
    static constexpr int count = sizeof...(Args);
    struct Layout { int offset[count]; int pointers[count + 1]; std::size_t bytes; };
    static constexpr Layout layout()
    {
        Layout made{};
        const std::size_t sizes[] = {sizeof(Args)...}, alignments[] = {alignof(Args)...};
        const bool pointer[] = {std::is_pointer_v<Args>...};
        std::size_t at = 0;
        int pointers = 0;
        for (int n = 0; n < count; n++) {
            at = (at + alignments[n] - 1) / alignments[n] * alignments[n];
            made.offset[n] = (int)at;
            if (pointer[n])
                made.pointers[pointers++] = (int)at;
            at += sizes[n];
        }
        made.pointers[pointers] = -1;
        made.bytes = at;
        return made;
    }
    static constexpr Layout packed = layout();

    template <std::size_t... N>
    static void call(void (*kernel)(Args...), const char* arguments, std::index_sequence<N...>)
    {
        std::tuple<Args...> values;
        (std::memcpy(&std::get<N>(values), arguments + packed.offset[N], sizeof(Args)), ...);
        kernel(std::get<N>(values)...);
    }
};

template <auto kernel, class... Args>
static void run_blocks(void (*)(Args...), const char* arguments, int rows)
{
    gridDim.y = rows;
    for (blockIdx.y = 0; blockIdx.y < rows; blockIdx.y++)
        Packed<Args...>::call(kernel, arguments, std::index_sequence_for<Args...>{});
}

template <auto kernel>
static void run_grid(const char* arguments, int, int grid_y) { run_blocks<kernel>(kernel, arguments, grid_y); }

template <auto kernel, class... Args>
static constexpr Kernel described(const char* name, void (*)(Args...))
{
    return {name, run_grid<kernel>, Packed<Args...>::packed.bytes, Packed<Args...>::packed.pointers};
}

#define KERNEL(name) described<name>(#name, name)
