// The whole pointwise part of an LSTM cell in one kernel (paper, "fusing
// pointwise operations"): forward, forward with what training keeps, backward.
//
// cols is the hidden size H, rows the batch. Row-major, row r at x + r * x_ld:
//   input      rows × 4H   products of the layer's input, gates i f g o side by side
//   recurrent  rows × 4H   products of the previous hidden state, likewise
//   bias_ih, bias_hh  4H   (leading dimension 0: the same for every row)
//   c_prev, c  rows × H    cell state before and after
//   h          rows × H    hidden state after
//   gates      rows × 4H   i f g o after their activations, in the place of recurrent
//   d_output, d_h  rows × H   gradient of h from above, and from the next step
//   d_c, d_c_prev  rows × H   gradient of c from the next step; of c_prev, in its place
//   d_gates    rows × 4H   gradient of the pre-activations, in the place of gates
//
// Stage naive does this in 21 launches of elementwise.cu, each passing its
// result on through memory. Here everything between the two GEMMs and the two
// states stays in registers: 11 floats are read or written per element instead
// of about 60, and one launch is paid for.
// Training keeps the gates where the products were: nothing is stored twice, and
// the backward pass overwrites them with what their GEMMs read. It computes
// tanh(c) again, which costs less than to keep it.
#include "common.cuh"

// flops per element: 30
extern "C" __global__ void lstm_forward(
    int rows, int cols,
    const float* __restrict__ input, int input_ld,
    const float* __restrict__ recurrent, int recurrent_ld,
    const float* __restrict__ bias_ih, int bias_ih_ld,
    const float* __restrict__ bias_hh, int bias_hh_ld,
    const float* __restrict__ c_prev, int c_prev_ld,
    float* __restrict__ c, int c_ld,
    float* __restrict__ h, int h_ld)
{
    FOR_EACH_ROW(r, rows) {
        const float* from_input = input + r * input_ld;
        const float* from_hidden = recurrent + r * recurrent_ld;
        const float* b_ih = bias_ih + r * bias_ih_ld;
        const float* b_hh = bias_hh + r * bias_hh_ld;
        FOR_EACH_COLUMN(j, cols) {
            float i = sigmoid_of(from_input[j] + from_hidden[j] + b_ih[j] + b_hh[j]);
            float f = sigmoid_of(from_input[cols + j] + from_hidden[cols + j] + b_ih[cols + j] + b_hh[cols + j]);
            float g = tanh_of(from_input[2 * cols + j] + from_hidden[2 * cols + j] + b_ih[2 * cols + j] + b_hh[2 * cols + j]);
            float o = sigmoid_of(from_input[3 * cols + j] + from_hidden[3 * cols + j] + b_ih[3 * cols + j] + b_hh[3 * cols + j]);
            float cell = f * c_prev[r * c_prev_ld + j] + i * g;
            c[r * c_ld + j] = cell;
            h[r * h_ld + j] = o * tanh_of(cell);
        }
    }
}

// flops per element: 30
extern "C" __global__ void lstm_forward_training(
    int rows, int cols,
    const float* __restrict__ input, int input_ld,
    const float* recurrent, int recurrent_ld,
    const float* __restrict__ bias_ih, int bias_ih_ld,
    const float* __restrict__ bias_hh, int bias_hh_ld,
    const float* __restrict__ c_prev, int c_prev_ld,
    float* gates, int gates_ld,
    float* __restrict__ c, int c_ld,
    float* __restrict__ h, int h_ld)
{
    FOR_EACH_ROW(r, rows) {
        const float* from_input = input + r * input_ld;
        const float* from_hidden = recurrent + r * recurrent_ld;
        const float* b_ih = bias_ih + r * bias_ih_ld;
        const float* b_hh = bias_hh + r * bias_hh_ld;
        float* gate = gates + r * gates_ld;
        FOR_EACH_COLUMN(j, cols) {
            float i = sigmoid_of(from_input[j] + from_hidden[j] + b_ih[j] + b_hh[j]);
            float f = sigmoid_of(from_input[cols + j] + from_hidden[cols + j] + b_ih[cols + j] + b_hh[cols + j]);
            float g = tanh_of(from_input[2 * cols + j] + from_hidden[2 * cols + j] + b_ih[2 * cols + j] + b_hh[2 * cols + j]);
            float o = sigmoid_of(from_input[3 * cols + j] + from_hidden[3 * cols + j] + b_ih[3 * cols + j] + b_hh[3 * cols + j]);
            float cell = f * c_prev[r * c_prev_ld + j] + i * g;
            gate[j] = i;
            gate[cols + j] = f;
            gate[2 * cols + j] = g;
            gate[3 * cols + j] = o;
            c[r * c_ld + j] = cell;
            h[r * h_ld + j] = o * tanh_of(cell);
        }
    }
}

// flops per element: 29
extern "C" __global__ void lstm_backward(
    int rows, int cols,
    const float* gates, int gates_ld,
    const float* __restrict__ c_prev, int c_prev_ld,
    const float* __restrict__ c, int c_ld,
    const float* __restrict__ d_output, int d_output_ld,
    const float* __restrict__ d_h, int d_h_ld,
    const float* d_c, int d_c_ld,
    float* d_gates, int d_gates_ld,
    float* d_c_prev, int d_c_prev_ld)
{
    FOR_EACH_ROW(r, rows) {
        const float* gate = gates + r * gates_ld;
        float* d_gate = d_gates + r * d_gates_ld;
        FOR_EACH_COLUMN(j, cols) {
            float i = gate[j], f = gate[cols + j], g = gate[2 * cols + j], o = gate[3 * cols + j];
            float t = tanh_of(c[r * c_ld + j]);
            float dh = d_output[r * d_output_ld + j] + d_h[r * d_h_ld + j];
            float dc = d_c[r * d_c_ld + j] + dh * o * (1 - t * t);
            d_gate[j] = dc * g * i * (1 - i);
            d_gate[cols + j] = dc * c_prev[r * c_prev_ld + j] * f * (1 - f);
            d_gate[2 * cols + j] = dc * i * (1 - g * g);
            d_gate[3 * cols + j] = dh * t * o * (1 - o);
            d_c_prev[r * d_c_prev_ld + j] = dc * f;
        }
    }
}
