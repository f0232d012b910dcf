// The whole pointwise part of a GRU cell in one kernel: forward, forward with what training keeps, backward.
//
// cols is the hidden size H, rows the batch. Row-major, row r at x + r * x_ld:
//   input      rows × 3H   products of the layer's input, gates r z n side by side
//   recurrent  rows × 3H   products of the previous hidden state, likewise
//   bias_ih, bias_hh  3H   (leading dimension 0: the same for every row)
//   h_prev, h  rows × H    hidden state before and after
//   gates      rows × 3H   r z n after their activations, in the place of recurrent
//   recurrent_n  rows × H  R_n h + b_Rn, which the gradient of r needs; d_recurrent_n, its gradient, in its place
//   d_output, d_h  rows × H   gradient of h from above, and from the next step
//   d_h_prev   rows × H    what of it reaches h_prev past the recurrent product, in the place of d_h
//   d_gates    rows × 3H   gradient of the pre-activations, in the place of gates
//
// The reset gate multiplies the recurrent product, not the hidden state: so one GEMM makes all three products,
// and the gradients of the two products of n differ by the factor r.
#include "common.cuh"

// flops per element: 24
extern "C" __global__ void gru_forward(
    int rows, int cols,
    const float* __restrict__ input, int input_ld,
    const float* __restrict__ recurrent, int recurrent_ld,
    const float* __restrict__ bias_ih, int bias_ih_ld,
    const float* __restrict__ bias_hh, int bias_hh_ld,
    const float* __restrict__ h_prev, int h_prev_ld,
    float* __restrict__ h, int h_ld)
{
    FOR_EACH_ROW(r, rows) {
        const float* from_input = input + r * input_ld;
        const float* from_hidden = recurrent + r * recurrent_ld;
        const float* b_ih = bias_ih + r * bias_ih_ld;
        const float* b_hh = bias_hh + r * bias_hh_ld;
        FOR_EACH_COLUMN(j, cols) {
            float reset = sigmoid_of(from_input[j] + from_hidden[j] + b_ih[j] + b_hh[j]);
            float z = sigmoid_of(from_input[cols + j] + from_hidden[cols + j] + b_ih[cols + j] + b_hh[cols + j]);
            float q = from_hidden[2 * cols + j] + b_hh[2 * cols + j];
            float n = tanh_of(from_input[2 * cols + j] + b_ih[2 * cols + j] + reset * q);
            h[r * h_ld + j] = n + z * (h_prev[r * h_prev_ld + j] - n);
        }
    }
}

// flops per element: 24
extern "C" __global__ void gru_forward_training(
    int rows, int cols,
    const float* __restrict__ input, int input_ld,
    const float* recurrent, int recurrent_ld,
    const float* __restrict__ bias_ih, int bias_ih_ld,
    const float* __restrict__ bias_hh, int bias_hh_ld,
    const float* __restrict__ h_prev, int h_prev_ld,
    float* gates, int gates_ld,
    float* __restrict__ recurrent_n, int recurrent_n_ld,
    float* __restrict__ h, int h_ld)
{
    FOR_EACH_ROW(r, rows) {
        const float* from_input = input + r * input_ld;
        const float* from_hidden = recurrent + r * recurrent_ld;
        const float* b_ih = bias_ih + r * bias_ih_ld;
        const float* b_hh = bias_hh + r * bias_hh_ld;
        FOR_EACH_COLUMN(j, cols) {
            float reset = sigmoid_of(from_input[j] + from_hidden[j] + b_ih[j] + b_hh[j]);
            float z = sigmoid_of(from_input[cols + j] + from_hidden[cols + j] + b_ih[cols + j] + b_hh[cols + j]);
            float q = from_hidden[2 * cols + j] + b_hh[2 * cols + j];
            float n = tanh_of(from_input[2 * cols + j] + b_ih[2 * cols + j] + reset * q);
            gates[r * gates_ld + j] = reset;
            gates[r * gates_ld + cols + j] = z;
            gates[r * gates_ld + 2 * cols + j] = n;
            recurrent_n[r * recurrent_n_ld + j] = q;
            h[r * h_ld + j] = n + z * (h_prev[r * h_prev_ld + j] - n);
        }
    }
}

// flops per element: 22
extern "C" __global__ void gru_backward(
    int rows, int cols,
    const float* gates, int gates_ld,
    const float* recurrent_n, int recurrent_n_ld,
    const float* __restrict__ h_prev, int h_prev_ld,
    const float* __restrict__ d_output, int d_output_ld,
    const float* d_h, int d_h_ld,
    float* d_gates, int d_gates_ld,
    float* d_recurrent_n, int d_recurrent_n_ld,
    float* d_h_prev, int d_h_prev_ld)
{
    FOR_EACH_ROW(r, rows) {
        const float* gate = gates + r * gates_ld;
        float* d_gate = d_gates + r * d_gates_ld;
        FOR_EACH_COLUMN(j, cols) {
            float reset = gate[j], z = gate[cols + j], n = gate[2 * cols + j];
            float d = d_output[r * d_output_ld + j] + d_h[r * d_h_ld + j];
            float dn = d * (1 - z) * (1 - n * n);
            float dz = d * (h_prev[r * h_prev_ld + j] - n) * z * (1 - z);
            float dr = dn * recurrent_n[r * recurrent_n_ld + j] * reset * (1 - reset);
            d_gate[j] = dr;
            d_gate[cols + j] = dz;
            d_gate[2 * cols + j] = dn;
            d_recurrent_n[r * d_recurrent_n_ld + j] = dn * reset;
            d_h_prev[r * d_h_prev_ld + j] = d * z;
        }
    }
}
