// exp and tanh for loops that must vectorise: no branch, no table, no call.
//
// Both rest on q(r) = exp(r) - 1 for |r| <= ln(2)/2. Its polynomial was fitted
// so that the largest relative error is the smallest possible, 1.4e-8: a quarter
// of float's rounding. Relative to q, not to exp(r): tanh needs that near 0.
#pragma once

#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

struct Exponential { int power; float fraction; };  // exp(x) = 2^power × (1 + fraction)

static inline int bits_of(float x)
{
    int bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float power_of_2(int n)  // -126 <= n <= 127
{
    int bits = (n + 127) << 23;
    float power;
    __builtin_memcpy(&power, &bits, sizeof power);
    return power;
}

// For |x| < 2^21, or NaN, which stays in the fraction.
static inline Exponential split_exp(float x)
{
    const float rounder = 12582912.0f;  // 1.5 × 2^23: a sum with it is rounded to an integer, which is then its low bits
    float sum = x * 1.44269504f + rounder;
    float n = sum - rounder;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;  // ln 2 in two parts, the first exact in n × it
    float rr = r * r;
    // In parts that don't wait for each other: a loop over this waits for its longest chain.
    float p = 0.499999981f + 0.166665434f * r + rr * (4.16672007e-2f + 8.36654707e-3f * r + rr * 1.38825179e-3f);
    return {bits_of(sum) - bits_of(rounder), p * rr + r};
}

// 2^power in two factors: it may lie outside float's range where exp(x) does not.
static inline float exp_of(float x)
{
    x = x < -104.0f ? -104.0f : x;  // exp is 0 below, infinite above
    x = x > 89.0f ? 89.0f : x;
    Exponential e = split_exp(x);
    int half = e.power >> 1;
    float first = power_of_2(half);
    return (first + first * e.fraction) * power_of_2(e.power - half);
}

// tanh |x| = -m / (2 + m) with m = exp(-2|x|) - 1, which keeps its relative
// accuracy where |x| is small; elsewhere 1 - 2 (m + 1) / (2 + m), whose last bit is
// right: gradients contain 1 - tanh², and of that little is left where |x| is large.
static inline float tanh_of(float x)
{
    float y = -2.0f * __builtin_fabsf(x);
    Exponential e = split_exp(y < -40.0f ? -40.0f : y);  // tanh is 1 to float's last bit beyond |x| = 9.02
    float scale = power_of_2(e.power);
    float m = (scale - 1.0f) + scale * e.fraction;
    bool far = y < -1.1f;
    float share = (far ? 2.0f * (scale + scale * e.fraction) : m) / (2.0f + m);
    return __builtin_copysignf(far ? 1.0f - share : -share, x);
}

static inline float sqrt_of(float x) { return __builtin_sqrtf(x); }
