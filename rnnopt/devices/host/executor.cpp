// Replays a plan: no Python in the loop.
//
// A stream is a list of operations that run one after the other. Any worker may
// run the next operation of any stream, once those on other streams that it
// depends on are done; of several it takes the earliest in the plan. So a worker
// that the system has put aside holds up nothing but its own operation. Streams
// follow one order in which every dependency points backwards: somebody can
// always go on.
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include "gemm.h"

typedef void sgemm_t(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
                     const int*, const float*, const int*, const float*, float*, const int*);
typedef void sgemv_t(const char*, const int*, const int*, const float*, const float*, const int*, const float*,
                     const int*, const float*, float*, const int*);
typedef void entry_t(void* const* args, int block, int blocks);

enum Kind : int64_t { BLAS_GEMM, LAUNCH, COPY, PACK, PACKED_GEMM, OWN_GEMM };

struct Operation {
    int64_t kind;
    int64_t entry;        // of a launch: its entry point
    int64_t slot, slots;  // its values in Program::slots
    int64_t wait, waits;  // operations of other streams that it waits for, in Program::waits
};

struct Relocation {  // slots[slot] = bases[buffer] + offset, in bytes
    int64_t slot, buffer, offset;
};

struct Program {
    const Operation* operations;
    int64_t* slots;
    const int64_t* waits;
    const Relocation* relocations;
    int64_t relocation_count;
    const int64_t* list;        // operations of all streams, stream by stream
    const int64_t* list_start;  // where a stream's list begins; one more than there are streams
    int64_t streams;
    int64_t workers;
    uint32_t* done;  // per operation, the last replay that has finished it
    sgemm_t* sgemm;
    sgemv_t* sgemv;
};

static inline void relax()
{
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Where a stream stands. Who has set `busy` may run `list[next]` and move on.
struct alignas(64) Stream {
    std::atomic<int64_t> next;
    std::atomic<bool> busy;
};

// Row-major out[m, n] = a[m, k] b[k, n], either or both transposed, or out += it:
// to a column-major BLAS, outᵀ = bᵀ aᵀ. One row is a matrix-vector product, which
// reads b where it is; a GEMM would first copy all of it into its own layout.
static void blas_gemm(const Program& p, const int64_t* s)
{
    const int m = s[3], n = s[4], k = s[5], out_ld = s[6], a_ld = s[7], b_ld = s[8], step = 1;
    const char *turn_a = s[9] ? "T" : "N", *turn_b = s[10] ? "T" : "N";
    const float one = 1, kept = s[11];
    float* out = (float*)s[0];
    const float *a = (const float*)s[1], *b = (const float*)s[2];
    if (m > 1 || s[9])
        p.sgemm(turn_b, turn_a, &n, &m, &k, &one, b, &b_ld, a, &a_ld, &kept, out, &out_ld);
    else if (s[10])
        p.sgemv("T", &k, &n, &one, b, &b_ld, a, &step, &kept, out, &step);
    else
        p.sgemv("N", &n, &k, &one, b, &b_ld, a, &step, &kept, out, &step);
}

static gemm::Matrix matrix(int64_t data, int64_t ld, int64_t transposed)
{
    return {(const float*)data, transposed ? 1 : ld, transposed ? ld : 1};
}

static void pack(const int64_t* s) { gemm::pack(matrix(s[1], s[4], s[5]), s[3], s[2], (float*)s[0]); }

static float* room(int64_t floats)
{
    static thread_local std::vector<float> memory;
    if ((int64_t)memory.size() < floats)
        memory.resize(floats);
    return memory.data();
}

static void packed_gemm(const int64_t* s)
{
    gemm::multiply(s[3], s[4], s[5], matrix(s[1], s[7], s[8]), (const float*)s[2], (float*)s[0], s[6], s[9], room(gemm::ROOM));
}

static void own_gemm(const int64_t* s)
{
    gemm::multiply(s[3], s[4], s[5], matrix(s[1], s[7], s[9]), matrix(s[2], s[8], s[10]), (float*)s[0], s[6], s[11],
                   room(gemm::ROOM + gemm::packed_size(gemm::DEPTH, s[4])));
}

static void launch(entry_t* entry, int64_t* slots, int64_t count)
{
    void* args[64];
    for (int64_t i = 0; i < count; i++)
        args[i] = &slots[i];
    entry(args, 0, 1);
}

static void copy(const int64_t* s)
{
    float* out = (float*)s[0];
    const float* source = (const float*)s[1];
    const int64_t rows = s[2], cols = s[3], out_ld = s[4], source_ld = s[5];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < cols; j++)
            out[r * out_ld + j] = source[r * source_ld + j];
}

static void run(const Program& p, const Operation& op)
{
    if (op.kind == BLAS_GEMM)
        blas_gemm(p, p.slots + op.slot);
    else if (op.kind == PACKED_GEMM)
        packed_gemm(p.slots + op.slot);
    else if (op.kind == OWN_GEMM)
        own_gemm(p.slots + op.slot);
    else if (op.kind == PACK)
        pack(p.slots + op.slot);
    else if (op.kind == LAUNCH)
        launch((entry_t*)op.entry, p.slots + op.slot, op.slots);
    else
        copy(p.slots + op.slot);
}

static bool ready(const Program& p, const Operation& op, uint32_t replay)
{
    for (int64_t w = op.wait; w < op.wait + op.waits; w++)
        if (__atomic_load_n(p.done + p.waits[w], __ATOMIC_ACQUIRE) != replay)
            return false;
    return true;
}

enum Found : int { FINISHED = -1, NOTHING_YET = -2 };

// The stream whose next operation is ready and comes earliest in the plan.
static int64_t choose(const Program& p, const std::vector<Stream>& streams, uint32_t replay)
{
    int64_t best = FINISHED, earliest = INT64_MAX;
    for (int64_t s = 0; s < p.streams; s++) {
        int64_t at = streams[s].next.load(std::memory_order_acquire);
        if (at == p.list_start[s + 1])
            continue;
        if (best == FINISHED)
            best = NOTHING_YET;
        int64_t number = p.list[at];
        if (number < earliest && !streams[s].busy.load(std::memory_order_relaxed) && ready(p, p.operations[number], replay)) {
            best = s;
            earliest = number;
        }
    }
    return best;
}

static void work(const Program& p, std::vector<Stream>& streams, uint32_t replay)
{
    for (int idle = 0;;) {
        int64_t chosen = choose(p, streams, replay);
        if (chosen == FINISHED)
            return;
        if (chosen == NOTHING_YET) {
            if (++idle < 1000)
                relax();
            else
                std::this_thread::yield();  // cores may be fewer than workers, or busy elsewhere
            continue;
        }
        idle = 0;
        Stream& stream = streams[chosen];
        if (stream.busy.exchange(true, std::memory_order_acquire))
            continue;  // another worker was faster
        int64_t at = stream.next.load(std::memory_order_relaxed);
        // It may have moved on between the look and the claim, to an operation that isn't ready.
        if (at != p.list_start[chosen + 1] && ready(p, p.operations[p.list[at]], replay)) {
            run(p, p.operations[p.list[at]]);
            __atomic_store_n(p.done + p.list[at], replay, __ATOMIC_RELEASE);
            stream.next.store(at + 1, std::memory_order_release);
        }
        stream.busy.store(false, std::memory_order_release);
    }
}

// Floats that a matrix of depth × cols takes when it is packed.
extern "C" int64_t rnnopt_packed_size(int64_t depth, int64_t cols) { return gemm::packed_size(depth, cols); }

// Run the plan once with buffer b at bases[b]. `replay` differs from every
// earlier call's. Returns 0, or 1 (nothing done) where the system gave no thread.
extern "C" int rnnopt_replay(const Program* program, const int64_t* bases, uint32_t replay)
{
    const Program& p = *program;
    for (const Relocation* r = p.relocations; r < p.relocations + p.relocation_count; r++)
        p.slots[r->slot] = bases[r->buffer] + r->offset;

    std::vector<Stream> streams(p.streams);
    for (int64_t s = 0; s < p.streams; s++)
        streams[s].next = p.list_start[s];

    std::atomic<int> start{0};  // nobody begins before everybody is there
    std::vector<std::thread> others;
    int failed = 0;
    try {
        others.reserve(p.workers);
        for (int64_t worker = 1; worker < p.workers; worker++)
            others.emplace_back([&] {
                while (!start.load(std::memory_order_acquire))
                    std::this_thread::yield();
                if (start.load(std::memory_order_relaxed) == 1)
                    work(p, streams, replay);
            });
    } catch (const std::exception&) {
        failed = 1;
    }
    start.store(failed ? 2 : 1, std::memory_order_release);
    if (!failed)
        work(p, streams, replay);
    for (std::thread& other : others)
        other.join();
    return failed;
}
