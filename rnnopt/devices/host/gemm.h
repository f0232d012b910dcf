// A matrix product for the shapes that recurrent networks have: few rows and
// weights that many products share, or gradients of weights summed over all steps.
//
// BLAS copies both operands into its own layout in every call. At a batch of 16
// the copy of the weights costs about as much as the product. Here `pack` lays
// them out once, and every product of a replay reads them so; of the other
// operand nothing is copied. The rest is what any fast product does: a tile of
// the result stays in registers, rows × two vectors, while rows of one operand
// and panels of the other stream past.
#pragma once
#include <cstring>
#include <utility>

namespace gemm {

// ROWS × 2 sums, 2 vectors and a factor: all that fits into the registers.
#ifdef __AVX512F__
constexpr int WIDTH = 16, ROWS = 14;
#else
constexpr int WIDTH = 8, ROWS = 6;
#endif
constexpr int PANEL = 2 * WIDTH;
constexpr int DEPTH = 128;  // of a block: its panel of 16 KB stays near, and so short a sum loses hardly a digit
constexpr int TILES = 8;    // of rows, that share a panel while it is near
constexpr int ROOM = TILES * ROWS * DEPTH;
constexpr int AHEAD = 32;   // steps: what a step takes, times this, is what memory takes to answer

typedef float Vector __attribute__((vector_size(4 * WIDTH), aligned(4)));

// An operand: element (i, j) at data[i * row + j * col].
struct Matrix {
    const float* data;
    long row, col;
};

// c[rows, PANEL] = a · b, or += it. b: PANEL values per step of depth. a: rows that
// are a_ld apart, or, turned, steps that are a_ld apart.
template <int rows, bool turned>
static void tile(int depth, const float* a, long a_ld, const float* b, float* c, long c_ld, bool add)
{
    // From 0, also where c is added to: a sum that goes on from a large value loses digits at every step.
    Vector sum[rows][2];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = Vector{};
    for (int k = 0; k < depth; k++, a += turned ? a_ld : 1, b += PANEL) {
        if (turned) {  // no processor guesses that the next step lies a row further
            __builtin_prefetch(a + AHEAD * a_ld);
            __builtin_prefetch(a + AHEAD * a_ld + rows - 1);
        }
        Vector left = *(const Vector*)b, right = *(const Vector*)(b + WIDTH);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            float x = a[turned ? i : i * a_ld];
            sum[i][0] += x * left;
            sum[i][1] += x * right;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        Vector *left = (Vector*)(c + i * c_ld), *right = (Vector*)(c + i * c_ld + WIDTH);
        *left = add ? *left + sum[i][0] : sum[i][0];
        *right = add ? *right + sum[i][1] : sum[i][1];
    }
}

typedef void Tile(int depth, const float* a, long a_ld, const float* b, float* c, long c_ld, bool add);

template <bool turned, int... less>
static Tile* tile_of(int rows, std::integer_sequence<int, less...>)
{
    static constexpr Tile* tiles[] = {tile<less + 1, turned>...};
    return tiles[rows - 1];
}

template <bool turned>
static Tile* tile_of(int rows) { return tile_of<turned>(rows, std::make_integer_sequence<int, ROWS>{}); }

// Rows of tile t, of `tiles` that share `rows` evenly.
static inline int rows_of(int rows, int tiles, int t) { return (t + 1) * rows / tiles - t * rows / tiles; }

// Floats that `pack` writes for an operand of depth × cols.
static inline long packed_size(int depth, int cols) { return (long)((cols + PANEL - 1) / PANEL) * PANEL * depth; }

// Steps `first` to before `last` of the depth of b, panel after panel, zeros beside it.
static void pack(Matrix b, int first, int last, int cols, float* out)
{
    for (int left = 0; left < cols; left += PANEL) {
        const int width = cols - left < PANEL ? cols - left : PANEL;
        const float* from = b.data + left * b.col;
        for (int k = first; k < last; k++, out += PANEL) {
            const float* row = from + k * b.row;
            if (b.col == 1 && width == PANEL)
                memcpy(out, row, sizeof(float) * PANEL);
            else
                for (int j = 0; j < PANEL; j++)
                    out[j] = j < width ? row[j * b.col] : 0;
        }
    }
}

// All of b, block of depth after block: what `multiply` takes.
static void pack(Matrix b, int depth, int cols, float* out)
{
    for (int first = 0; first < depth; first += DEPTH) {
        const int last = depth - first < DEPTH ? depth : first + DEPTH;
        pack(b, first, last, cols, out);
        out += packed_size(last - first, cols);
    }
}

// Rows of a, tile after tile, turned.
static void pack_rows(Matrix a, int first, int steps, int top, int height, int tiles, float* out)
{
    for (int t = 0, at = 0, count; t < tiles; t++, at += count) {
        count = rows_of(height, tiles, t);
        const float* from = a.data + (top + at) * a.row + first * a.col;
        for (int k = 0; k < steps; k++, from += a.col, out += count)
            for (int i = 0; i < count; i++)
                out[i] = from[i * a.row];
    }
}

// What steps `first` to before `first + steps` of the depth add to c[rows, cols] = a · b, or
// begin it with. b: these steps, as `pack` leaves them.
static void multiply_block(int rows, int cols, int first, int steps, Matrix a, const float* b, float* c, long c_ld, bool add, float* room)
{
    const bool turned = a.col != 1;
    // Rows that are a multiple of a page apart fall into the same lines of the first cache, and drive each other out.
    const bool copied = !turned && rows > 1 && a.row * sizeof(float) % 4096 == 0;
    const int most = turned ? ROWS : TILES * ROWS;
    for (int top = 0; top < rows; top += most) {
        const int height = rows - top < most ? rows - top : most, tiles = (height + ROWS - 1) / ROWS;
        if (copied)
            pack_rows(a, first, steps, top, height, tiles, room);
        for (int left = 0; left < cols; left += PANEL) {
            const float* panel = b + (long)left * steps;
            const int width = cols - left;
            for (int t = 0, at = 0, count; t < tiles; t++, at += count) {
                count = rows_of(height, tiles, t);
                const float* from = copied ? room + at * steps : a.data + (top + at) * a.row + first * a.col;
                const long a_ld = copied ? count : turned ? a.col : a.row;
                Tile* run = copied || turned ? tile_of<true>(count) : tile_of<false>(count);
                float* out = c + (top + at) * c_ld + left;
                if (width >= PANEL) {
                    run(steps, from, a_ld, panel, out, c_ld, add);
                    continue;
                }
                float edge[ROWS * PANEL] = {};  // beyond the last column there is somebody else's memory
                for (int i = 0; add && i < count; i++)
                    memcpy(edge + i * PANEL, out + i * c_ld, sizeof(float) * width);
                run(steps, from, a_ld, panel, edge, PANEL, add);
                for (int i = 0; i < count; i++)
                    memcpy(out + i * c_ld, edge + i * PANEL, sizeof(float) * width);
            }
        }
    }
}

// c[rows, cols] = a[rows, depth] · b, or += it, with all of b packed. `room` has ROOM floats.
static void multiply(int rows, int cols, int depth, Matrix a, const float* b, float* c, long c_ld, bool add, float* room)
{
    for (int first = 0; first < depth; first += DEPTH, add = true) {
        const int steps = depth - first < DEPTH ? depth - first : DEPTH;
        multiply_block(rows, cols, first, steps, a, b, c, c_ld, add, room);
        b += packed_size(steps, cols);
    }
}

// The same with b as it is. `room` has ROOM + packed_size(DEPTH, cols) floats.
static void multiply(int rows, int cols, int depth, Matrix a, Matrix b, float* c, long c_ld, bool add, float* room)
{
    for (int first = 0; first < depth; first += DEPTH, add = true) {
        const int last = depth - first < DEPTH ? depth : first + DEPTH;
        pack(b, first, last, cols, room + ROOM);
        multiply_block(rows, cols, first, last - first, a, room + ROOM, c, c_ld, add, room);
    }
}

}  // namespace gemm
