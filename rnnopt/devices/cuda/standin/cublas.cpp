// The calls of cuBLAS that the cuda device makes, on the stand-in driver's streams.
//
// The product itself is a Fortran sgemm that Python hands over; what is read and written is told to the
// driver, column by column, so that its checks cover products too.
#include <cstddef>
#include <dlfcn.h>
#include <set>

extern "C" int standin_issue(void* stream, const char* name, void (*run)(void*, void*), void* data, void (*done)(void*));
extern "C" void standin_access(void* accesses, const void* at, std::size_t size, int writes);
extern "C" int standin_in_device(const void* at);
extern "C" int standin_context_is_current();

namespace {

enum Status { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
struct Handle { void* stream = nullptr; int math = 0, pointers = 0; };
std::set<Handle*> handles;

typedef void (*Sgemm)(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*,
                      const float*, const int*, const float*, float*, const int*);
Sgemm sgemm = nullptr;

struct Product { char turn_a, turn_b; int m, n, k; float alpha, beta; const float* a; int lda; const float* b; int ldb; float* c; int ldc; };

void columns(void* accesses, const float* at, int rows, int count, int ld, int writes)
{
    if (rows == ld)
        return standin_access(accesses, at, sizeof(float) * rows * count, writes);
    for (int column = 0; column < count; column++)
        standin_access(accesses, at + std::size_t(column) * ld, sizeof(float) * rows, writes);
}

void multiply(void* data, void* accesses)
{
    Product& p = *static_cast<Product*>(data);
    columns(accesses, p.a, p.turn_a == 'N' ? p.m : p.k, p.turn_a == 'N' ? p.k : p.m, p.lda, 0);
    columns(accesses, p.b, p.turn_b == 'N' ? p.k : p.n, p.turn_b == 'N' ? p.n : p.k, p.ldb, 0);
    if (p.beta != 0)
        columns(accesses, p.c, p.m, p.n, p.ldc, 0);
    columns(accesses, p.c, p.m, p.n, p.ldc, 1);
    sgemm(&p.turn_a, &p.turn_b, &p.m, &p.n, &p.k, &p.alpha, p.a, &p.lda, p.b, &p.ldb, &p.beta, p.c, &p.ldc);
}

void forget(void* data) { delete static_cast<Product*>(data); }

}  // namespace

#define BLAS extern "C" int

extern "C" void standin_set_sgemm(void* routine) { sgemm = reinterpret_cast<Sgemm>(routine); }

BLAS cublasCreate_v2(Handle** out)
{
    if (!standin_context_is_current())
        return NOT_INITIALIZED;
    *out = new Handle;
    handles.insert(*out);
    return SUCCESS;
}
BLAS cublasDestroy_v2(Handle* handle) { return handles.erase(handle) ? SUCCESS : NOT_INITIALIZED; }
BLAS cublasSetStream_v2(Handle* handle, void* stream) { return handles.count(handle) ? handle->stream = stream, SUCCESS : NOT_INITIALIZED; }
BLAS cublasGetStream_v2(Handle* handle, void** stream) { return handles.count(handle) ? *stream = handle->stream, SUCCESS : NOT_INITIALIZED; }
BLAS cublasSetMathMode(Handle* handle, int mode) { return handles.count(handle) ? handle->math = mode, SUCCESS : NOT_INITIALIZED; }
BLAS cublasGetMathMode(Handle* handle, int* mode) { return handles.count(handle) ? *mode = handle->math, SUCCESS : NOT_INITIALIZED; }
BLAS cublasSetPointerMode_v2(Handle* handle, int mode) { return handles.count(handle) ? handle->pointers = mode, SUCCESS : NOT_INITIALIZED; }
BLAS cublasGetPointerMode_v2(Handle* handle, int* mode) { return handles.count(handle) ? *mode = handle->pointers, SUCCESS : NOT_INITIALIZED; }
BLAS cublasSetWorkspace_v2(Handle* handle, void*, std::size_t) { return handles.count(handle) ? SUCCESS : NOT_INITIALIZED; }
BLAS cublasGetVersion_v2(Handle*, int* version) { *version = 130000; return SUCCESS; }
BLAS cublasGetProperty(int part, int* value) { return part < 0 || part > 2 ? INVALID_VALUE : (*value = part ? 0 : 13, SUCCESS); }
extern "C" const char* cublasGetStatusName(int status) { return status == INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS"; }
extern "C" const char* cublasGetStatusString(int) { return "the stand-in of cuBLAS refused a call"; }

BLAS cublasSgemm_v2(Handle* handle, int turn_a, int turn_b, int m, int n, int k, const float* alpha, const float* a, int lda,
                    const float* b, int ldb, const float* beta, float* c, int ldc)
{
    if (!handles.count(handle))
        return NOT_INITIALIZED;
    if (handle->pointers)
        return NOT_SUPPORTED;
    if (m < 0 || n < 0 || k < 0 || lda < (turn_a ? k : m) || ldb < (turn_b ? n : k) || ldc < m
        || !standin_in_device(a) || !standin_in_device(b) || !standin_in_device(c))
        return INVALID_VALUE;
    auto* product = new Product{turn_a ? 'T' : 'N', turn_b ? 'T' : 'N', m, n, k, *alpha, *beta, a, lda, b, ldb, c, ldc};
    return standin_issue(handle->stream, "a GEMM", multiply, product, forget) ? EXECUTION_FAILED : SUCCESS;
}
