// One step of an optimiser on one parameter, all its elementwise operations in one kernel.
//
// Row-major, row r at x + r * x_ld:
//   gradient             rows × cols
//   weight, new_weight   rows × cols   before and after, the same memory
//   velocity, new_velocity, mean, new_mean, square, new_square   rows × cols   likewise
//   settings             8             (one row) what changes from step to step: see each kernel
//
// The rules are those of torch.optim. A framework that knows nothing of the rule issues a kernel for each of
// its operations; Adam then reads and writes about 20 floats per element, where 7 will do.
#include "common.cuh"

// settings: learning rate, momentum, weight decay, factor of the gradient
// flops per element: 7
extern "C" __global__ void sgd(
    int rows, int cols,
    const float* __restrict__ settings, int settings_ld,
    const float* __restrict__ gradient, int gradient_ld,
    const float* velocity, int velocity_ld,
    const float* weight, int weight_ld,
    float* new_velocity, int new_velocity_ld,
    float* new_weight, int new_weight_ld)
{
    const float rate = settings[0], momentum = settings[1], decay = settings[2], factor = settings[3];
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols) {
            float w = weight[r * weight_ld + j];
            float d = factor * gradient[r * gradient_ld + j] + decay * w;
            float v = momentum * velocity[r * velocity_ld + j] + d;
            new_velocity[r * new_velocity_ld + j] = v;
            new_weight[r * new_weight_ld + j] = w - rate * v;
        }
}

// settings: learning rate over the first bias correction, the two decays, epsilon, weight decay, factor of the
// gradient, one over the root of the second bias correction
// flops per element: 17
extern "C" __global__ void adam(
    int rows, int cols,
    const float* __restrict__ settings, int settings_ld,
    const float* __restrict__ gradient, int gradient_ld,
    const float* mean, int mean_ld,
    const float* square, int square_ld,
    const float* weight, int weight_ld,
    float* new_mean, int new_mean_ld,
    float* new_square, int new_square_ld,
    float* new_weight, int new_weight_ld)
{
    const float rate = settings[0], beta1 = settings[1], beta2 = settings[2], epsilon = settings[3];
    const float decay = settings[4], factor = settings[5], correction = settings[6];
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols) {
            float w = weight[r * weight_ld + j];
            float d = factor * gradient[r * gradient_ld + j] + decay * w;
            float m = beta1 * mean[r * mean_ld + j] + (1 - beta1) * d;
            float v = beta2 * square[r * square_ld + j] + (1 - beta2) * d * d;
            new_mean[r * new_mean_ld + j] = m;
            new_square[r * new_square_ld + j] = v;
            new_weight[r * new_weight_ld + j] = w - rate * m / (sqrt_of(v) * correction + epsilon);
        }
}
