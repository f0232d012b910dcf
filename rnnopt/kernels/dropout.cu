// y = x ∘ mask, where the mask is 1 / (1 - p) or, with probability p, 0: dropout between layers.
//
//   x, y  rows × cols   (y may be x)
//   key   8             (one row) pieces of 16 bits: four of the seed, two of the number of the call, two of
//                       the row of a longer sequence that this one begins with
//
// Whether an element is kept follows from its place alone: the first word of Philox4x32-10 (Salmon, Moraes, Dror
// and Shaw 2011) with the counter (element, layer, call, 0) under the seed as key, at least `threshold` = p × 2³².
// So it is the same for every schedule, block and device, and the backward pass makes the mask again instead of keeping it.
#include "common.cuh"

// Product of 32 bits by 32: the upper half, and the lower.
__device__ inline unsigned high_half(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }

// flops per element: 1
extern "C" __global__ void dropout(
    int rows, int cols,
    const float* x, int x_ld,
    const float* __restrict__ key, int key_ld,
    float* y, int y_ld,
    int first, int layer, int threshold, float scale)
{
    const unsigned low = (unsigned)key[0] | (unsigned)key[1] << 16, high = (unsigned)key[2] | (unsigned)key[3] << 16;
    const unsigned call = (unsigned)key[4] | (unsigned)key[5] << 16, begin = (unsigned)key[6] | (unsigned)key[7] << 16;
    FOR_EACH_ROW(r, rows) {
        const unsigned start = (unsigned)first + (begin + (unsigned)r) * (unsigned)cols;
        FOR_EACH_COLUMN(j, cols) {
            unsigned a = start + (unsigned)j, b = (unsigned)layer, c = call, d = 0, k0 = low, k1 = high;
            for (int round = 0; round < 10; round++) {
                unsigned a_next = high_half(0xCD9E8D57u, c) ^ b ^ k0, c_next = high_half(0xD2511F53u, a) ^ d ^ k1;
                b = 0xCD9E8D57u * c;
                d = 0xD2511F53u * a;
                a = a_next;
                c = c_next;
                k0 += 0x9E3779B9u;
                k1 += 0xBB67AE85u;
            }
            y[r * y_ld + j] = a >= (unsigned)threshold ? x[r * x_ld + j] * scale : 0;
        }
    }
}
