// The whole pointwise part of a plain recurrent cell in one kernel, with tanh and
// with ReLU, forward and backward.
//
// cols is the hidden size H, rows the batch. Row-major, row r at x + r * x_ld:
//   input, recurrent  rows × H   products of the layer's input, and of the previous hidden state
//   bias_ih, bias_hh  H          (leading dimension 0: the same for every row)
//   h                 rows × H   hidden state after
//   d_output, d_h     rows × H   gradient of h from above, and from the next step
//   d_gates           rows × H   gradient of the pre-activation
//
// One sum and one activation: a cell like this is nearly all GEMM, and has the
// least to gain from fusing. The gradient needs the new hidden state only, so
// training keeps nothing else.
#include "common.cuh"

// flops per element: 4
extern "C" __global__ void rnn_tanh_forward(
    int rows, int cols,
    const float* __restrict__ input, int input_ld,
    const float* __restrict__ recurrent, int recurrent_ld,
    const float* __restrict__ bias_ih, int bias_ih_ld,
    const float* __restrict__ bias_hh, int bias_hh_ld,
    float* __restrict__ h, int h_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols) {
            float a = input[r * input_ld + j] + recurrent[r * recurrent_ld + j] + bias_ih[r * bias_ih_ld + j] + bias_hh[r * bias_hh_ld + j];
            h[r * h_ld + j] = tanh_of(a);
        }
}

// flops per element: 4
extern "C" __global__ void rnn_tanh_backward(
    int rows, int cols,
    const float* __restrict__ h, int h_ld,
    const float* __restrict__ d_output, int d_output_ld,
    const float* __restrict__ d_h, int d_h_ld,
    float* __restrict__ d_gates, int d_gates_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols) {
            float y = h[r * h_ld + j], d = d_output[r * d_output_ld + j] + d_h[r * d_h_ld + j];
            d_gates[r * d_gates_ld + j] = d * (1 - y * y);
        }
}

// flops per element: 4
extern "C" __global__ void rnn_relu_forward(
    int rows, int cols,
    const float* __restrict__ input, int input_ld,
    const float* __restrict__ recurrent, int recurrent_ld,
    const float* __restrict__ bias_ih, int bias_ih_ld,
    const float* __restrict__ bias_hh, int bias_hh_ld,
    float* __restrict__ h, int h_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols) {
            float a = input[r * input_ld + j] + recurrent[r * recurrent_ld + j] + bias_ih[r * bias_ih_ld + j] + bias_hh[r * bias_hh_ld + j];
            h[r * h_ld + j] = a > 0 ? a : 0;
        }
}

// flops per element: 2
extern "C" __global__ void rnn_relu_backward(
    int rows, int cols,
    const float* __restrict__ h, int h_ld,
    const float* __restrict__ d_output, int d_output_ld,
    const float* __restrict__ d_h, int d_h_ld,
    float* __restrict__ d_gates, int d_gates_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols) {
            float y = h[r * h_ld + j], d = d_output[r * d_output_ld + j] + d_h[r * d_h_ld + j];
            d_gates[r * d_gates_ld + j] = y > 0 ? d : 0;
        }
}
