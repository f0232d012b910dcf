// Elementary operations, one kernel each: the pointwise part of a cell as a
// framework issues it when it knows nothing of the cell.
//
// Every matrix is row-major, rows × cols, row r starting at x + r * x_ld. A
// leading dimension of 0 repeats one row: that is how a bias is added. An
// output may be one of the inputs (in place).
//
// Each kernel reads and writes whole matrices to do one operation per element,
// and each is a launch: memory traffic and launch latency are all its cost.
// Stage fused_pointwise replaces the twenty-one of an LSTM cell by one.
#include "common.cuh"

// y = a + b
// flops per element: 1
extern "C" __global__ void add(int rows, int cols, const float* a, int a_ld, const float* b, int b_ld, float* y, int y_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols)
            y[r * y_ld + j] = a[r * a_ld + j] + b[r * b_ld + j];
}

// y = a ∘ b
// flops per element: 1
extern "C" __global__ void multiply(int rows, int cols, const float* a, int a_ld, const float* b, int b_ld, float* y, int y_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols)
            y[r * y_ld + j] = a[r * a_ld + j] * b[r * b_ld + j];
}

// y = 1 / (1 + exp(-x))
// flops per element: 4
extern "C" __global__ void sigmoid(int rows, int cols, const float* x, int x_ld, float* y, int y_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols)
            y[r * y_ld + j] = sigmoid_of(x[r * x_ld + j]);
}

// y = tanh(x)
// flops per element: 1
extern "C" __global__ void hyperbolic_tangent(int rows, int cols, const float* x, int x_ld, float* y, int y_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols)
            y[r * y_ld + j] = tanh_of(x[r * x_ld + j]);
}

// y = a - b
// flops per element: 1
extern "C" __global__ void subtract(int rows, int cols, const float* a, int a_ld, const float* b, int b_ld, float* y, int y_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols)
            y[r * y_ld + j] = a[r * a_ld + j] - b[r * b_ld + j];
}

// y = a / b
// flops per element: 1
extern "C" __global__ void divide(int rows, int cols, const float* a, int a_ld, const float* b, int b_ld, float* y, int y_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols)
            y[r * y_ld + j] = a[r * a_ld + j] / b[r * b_ld + j];
}

// y = max(x, 0)
// flops per element: 1
extern "C" __global__ void relu(int rows, int cols, const float* x, int x_ld, float* y, int y_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols)
            y[r * y_ld + j] = x[r * x_ld + j] > 0 ? x[r * x_ld + j] : 0;
}

// y = 1 - x
// flops per element: 1
extern "C" __global__ void one_minus(int rows, int cols, const float* x, int x_ld, float* y, int y_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols)
            y[r * y_ld + j] = 1 - x[r * x_ld + j];
}

// y = 1 + x
// flops per element: 1
extern "C" __global__ void one_plus(int rows, int cols, const float* x, int x_ld, float* y, int y_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols)
            y[r * y_ld + j] = 1 + x[r * x_ld + j];
}

// dx = d ∘ y (1 - y): the gradient through y = sigmoid(x)
// flops per element: 3
extern "C" __global__ void sigmoid_gradient(int rows, int cols, const float* d, int d_ld, const float* y, int y_ld, float* dx, int dx_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols)
            dx[r * dx_ld + j] = d[r * d_ld + j] * y[r * y_ld + j] * (1 - y[r * y_ld + j]);
}

// dx = d ∘ (1 - y²): the gradient through y = tanh(x)
// flops per element: 3
extern "C" __global__ void hyperbolic_tangent_gradient(int rows, int cols, const float* d, int d_ld, const float* y, int y_ld, float* dx, int dx_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols)
            dx[r * dx_ld + j] = d[r * d_ld + j] * (1 - y[r * y_ld + j] * y[r * y_ld + j]);
}

// dx = d where y > 0, else 0: the gradient through y = relu(x)
// flops per element: 1
extern "C" __global__ void relu_gradient(int rows, int cols, const float* d, int d_ld, const float* y, int y_ld, float* dx, int dx_ld)
{
    FOR_EACH_ROW(r, rows)
        FOR_EACH_COLUMN(j, cols)
            dx[r * dx_ld + j] = y[r * y_ld + j] > 0 ? d[r * d_ld + j] : 0;
}
