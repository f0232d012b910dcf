// exp and tanh for loops that must vectorise: no branch, no table, no call.
//
// Both rest on exp(r) - 1 for |r| <= ln(2)/2, whose Taylor series to r^7 errs by
// less than 2e-8 of its value: below float's rounding.
#pragma once

#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

struct Exponential { float scale, fraction; };  // exp(x) = scale × (1 + fraction), scale a power of 2

static inline Exponential split_exp(float x)
{
    x = x < -87.0f ? -87.0f : x;  // outside, exp has left float's normal range
    x = x > 88.0f ? 88.0f : x;
    float n = __builtin_floorf(x * 1.44269504f + 0.5f);
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;  // ln 2 in two parts, the first exact in n × it
    float q = 1.0f / 5040;
    q = q * r + 1.0f / 720;
    q = q * r + 1.0f / 120;
    q = q * r + 1.0f / 24;
    q = q * r + 1.0f / 6;
    q = q * r + 1.0f / 2;
    q = q * r * r + r;
    int bits = ((int)n + 127) << 23;
    float scale;
    __builtin_memcpy(&scale, &bits, sizeof scale);
    return {scale, q};
}

static inline float exp_of(float x)
{
    Exponential e = split_exp(x);
    return e.scale + e.scale * e.fraction;
}

// tanh |x| = -m / (2 + m) with m = exp(-2|x|) - 1, which keeps its relative
// accuracy where |x| is small and 1 - 2 / (exp(2x) + 1) would cancel.
static inline float tanh_of(float x)
{
    Exponential e = split_exp(-2.0f * __builtin_fabsf(x));
    float m = (e.scale - 1.0f) + e.scale * e.fraction;
    return __builtin_copysignf(-m / (2.0f + m), x);
}
