// Runs kernels with a real thread for each of CUDA's, on the cases of a file.
//
// checked/__init__.py writes the cases, in int64 but for the data, which is float:
//   number of cases, then for each
//   kernel, rows, cols, threads of a block, blocks in x, in y, arrays, matrices, scalars
//   length of each array
//   (array, leading dimension) of each matrix
//   value of each scalar, in the low bytes
//   data of each array
// The results file is the data of all arrays after each case. The third file
// says what is where in the case under way: a report knows only addresses.
#include "threads.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

constexpr unsigned RESIDENT_THREADS = 1024;  // a larger grid runs as waves of blocks, one after the other
constexpr int FOUND = 66;                    // exit status, as build.py asks of the sanitisers

struct Array {
    std::size_t length;
    std::unique_ptr<float[]> data;  // of its exact length, so that a step beyond it is seen
};

struct Library {
    std::vector<Entry*> entries;
    const std::size_t* shared_sizes;
};

static void stop_if_threads_missed_each_other(const Blocks& blocks)
{
    for (auto& block : blocks) {
        const Barrier& barrier = block->barrier;
        if (barrier.missed)
            std::fprintf(stderr, "rnnopt: block %u,%u: missed barrier %d\n", block->x, block->y, barrier.first_line);
        else if (barrier.other_line)
            std::fprintf(stderr, "rnnopt: block %u,%u: barriers %d and %d\n",
                         block->x, block->y, barrier.first_line, barrier.other_line);
        else
            continue;
        std::exit(FOUND);
    }
}

static void say_what_is_where(const char* path, int64_t number, const std::vector<Array>& arrays, const Blocks& blocks,
                              const std::size_t* shared_sizes)
{
    std::ofstream file(path);
    file << "case " << number << "\n";
    for (std::size_t a = 0; a < arrays.size(); a++)
        file << "array " << a << " " << arrays[a].data.get() << " " << 4 * arrays[a].length << "\n";
    for (auto& block : blocks)
        for (std::size_t s = 0; s < block->shared.size(); s++)
            file << "shared " << s << " " << block->shared[s] << " " << shared_sizes[s] << "\n";
}

static int64_t next(std::ifstream& file)
{
    int64_t value = 0;
    file.read(reinterpret_cast<char*>(&value), sizeof value);
    return value;
}

static void run_case(int64_t number, const Library& library, std::ifstream& cases, std::ofstream& results, const char* where)
{
    Entry* entry = library.entries[next(cases)];
    int rows = next(cases), cols = next(cases);
    const unsigned threads = next(cases), grid_x = next(cases), grid_y = next(cases);
    std::vector<Array> arrays(next(cases));
    struct Matrix { float* data; int ld; };
    std::vector<Matrix> matrices(next(cases));
    std::vector<int64_t> scalars(next(cases));
    for (Array& array : arrays) {
        array.length = next(cases);
        array.data.reset(new float[array.length]);
    }
    std::vector<void*> args = {&rows, &cols};
    for (Matrix& matrix : matrices) {
        matrix.data = arrays[next(cases)].data.get();
        matrix.ld = next(cases);
        args.insert(args.end(), {&matrix.data, &matrix.ld});
    }
    for (int64_t& scalar : scalars) {
        scalar = next(cases);
        args.push_back(&scalar);
    }
    for (Array& array : arrays)
        cases.read(reinterpret_cast<char*>(array.data.get()), 4 * array.length);
    const unsigned resident = threads < RESIDENT_THREADS ? RESIDENT_THREADS / threads : 1;
    for (unsigned first = 0; first < grid_x * grid_y; first += resident) {
        Blocks blocks;
        for (unsigned b = first; b < first + resident && b < grid_x * grid_y; b++)
            blocks.emplace_back(new Block(b % grid_x, b / grid_x, threads, library.shared_sizes));
        say_what_is_where(where, number, arrays, blocks, library.shared_sizes);
        run_wave(entry, args.data(), blocks, {threads, 1, 1}, {grid_x, grid_y, 1});
        stop_if_threads_missed_each_other(blocks);
    }
    for (Array& array : arrays)
        results.write(reinterpret_cast<char*>(array.data.get()), 4 * array.length);
}

// Arguments: the library, the cases, the results, what is where, names of the kernels.
int main(int count, char** arguments)
{
    void* handle = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    Library library;
    library.shared_sizes = reinterpret_cast<const std::size_t* (*)()>(dlsym(handle, "rnnopt_shared_sizes"))();
    for (int a = 5; a < count; a++)
        library.entries.push_back(reinterpret_cast<Entry*>(dlsym(handle, (std::string(arguments[a]) + "__entry").c_str())));
    std::ifstream cases(arguments[2], std::ios::binary);
    std::ofstream results(arguments[3], std::ios::binary);
    const int64_t all = next(cases);
    for (int64_t number = 0; number < all; number++)
        run_case(number, library, cases, results, arguments[4]);
    results.close();
    return results.fail() ? 1 : 0;
}
