// Blocks of threads for the runner of checked kernels.
//
// The threads of a block meet at its barrier, and the blocks of a wave run at
// the same time with nothing between them, as on a GPU: two threads that touch
// one element with no barrier between them are a race that ThreadSanitizer
// sees, be they of one block or of two.
#pragma once
#include "checked.h"

#include <pthread.h>

#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

// The barrier of a block. ThreadSanitizer takes a lock to order all that its
// holders did before and do after, so a common barrier would hide races: a thread
// that is slow to leave takes the lock after others have come to the next barrier.
// Here threads share a lock to arrive alone, and each leaves through its own gate.
// (std::barrier has the same flaw in GCC's library, and hides itself in Apple's.)
class Barrier {
public:
    int first_line = 0, other_line = 0;  // of two barriers at which threads of the block waited for each other
    bool missed = false;                 // a thread ended, and others wait for it at first_line

    explicit Barrier(unsigned threads) : running(threads), gates(threads) {}

    void meet(unsigned thread, int line)
    {
        {
            std::unique_lock<std::mutex> lock(arriving);
            if (!missed && !other_line) {
                if (waiting.empty())
                    first_line = line;
                else if (line != first_line)
                    other_line = line;
                missed = ended;
            }
            waiting.push_back(thread);
            open_if_all_wait();
        }
        gates[thread].pass();
    }

    void end()  // a thread that ends early is reported, not waited for
    {
        std::unique_lock<std::mutex> lock(arriving);
        ended = true;
        running--;
        missed = missed || (!waiting.empty() && !other_line);  // the first mistake is what to tell
        open_if_all_wait();
    }

private:
    class Gate {
    public:
        void pass()
        {
            std::unique_lock<std::mutex> lock(mutex);
            changed.wait(lock, [this] { return open; });
            open = false;
        }

        void let_pass()
        {
            std::unique_lock<std::mutex> lock(mutex);
            open = true;
            changed.notify_one();
        }

    private:
        std::mutex mutex;
        std::condition_variable changed;
        bool open = false;
    };

    std::mutex arriving;
    unsigned running;
    bool ended = false;
    std::vector<unsigned> waiting;
    std::vector<Gate> gates;

    void open_if_all_wait()
    {
        if (waiting.size() < running)
            return;
        for (unsigned thread : waiting)
            gates[thread].let_pass();
        waiting.clear();
    }
};

struct Block {
    unsigned x, y;
    Barrier barrier;
    std::vector<std::unique_ptr<unsigned char[]>> owned;
    std::vector<void*> shared;

    Block(unsigned x, unsigned y, unsigned threads, const std::size_t* sizes) : x(x), y(y), barrier(threads)
    {
        for (; *sizes; sizes++) {
            owned.emplace_back(new unsigned char[*sizes]);
            shared.push_back(owned.back().get());
            std::memset(shared.back(), 0xff, *sizes);  // NaN: shared memory begins with nothing of use
        }
    }
};

using Blocks = std::vector<std::unique_ptr<Block>>;
using Entry = void(void* const* args, const checked::Thread* thread);

static void name_thread(const char* name)  // sanitisers print it
{
#ifdef __APPLE__
    pthread_setname_np(name);
#else
    pthread_setname_np(pthread_self(), name);
#endif
}

static thread_local char place[16];  // block's x and y, thread: "0,1,31"

// AddressSanitizer calls this in the thread that went wrong.
extern "C" void __asan_on_error()
{
    std::fprintf(stderr, "rnnopt: thread %s\n", place);
}

// A thread that does one job after the other: to start one costs a millisecond
// under ThreadSanitizer. A lock orders whatever its holders did before and do
// after, so main takes a worker's only to hand over a job: between that and the
// end of the wave nothing but the kernel's own barriers orders the workers.
class Worker {
public:
    Worker() : thread([this] { work(); }) {}

    void start(std::function<void()> next)
    {
        std::unique_lock<std::mutex> lock(mutex);
        job = std::move(next);
        changed.notify_one();
    }

private:
    std::mutex mutex;
    std::condition_variable changed;
    std::function<void()> job;
    std::thread thread;

    void work()
    {
        for (;;) {
            std::unique_lock<std::mutex> lock(mutex);
            changed.wait(lock, [this] { return bool(job); });
            std::function<void()> mine = std::exchange(job, nullptr);
            lock.unlock();
            mine();
        }
    }
};

// What has yet to end of a wave; a worker takes its lock only when its job is done.
class Countdown {
public:
    void begin(std::size_t jobs) { left = jobs; }

    void end_one()
    {
        std::unique_lock<std::mutex> lock(mutex);
        if (--left == 0)
            ended.notify_one();
    }

    void wait()
    {
        std::unique_lock<std::mutex> lock(mutex);
        ended.wait(lock, [this] { return left == 0; });
    }

private:
    std::mutex mutex;
    std::condition_variable ended;
    std::size_t left = 0;
};

static void meet(void* barrier, unsigned thread, int line)
{
    static_cast<Barrier*>(barrier)->meet(thread, line);
}

static void run_wave(Entry* entry, void* const* args, const Blocks& blocks, checked::Index block_size, checked::Index grid_size)
{
    static std::vector<Worker*> workers;  // never ended: they wait until the process ends
    static Countdown& countdown = *new Countdown;
    while (workers.size() < blocks.size() * block_size.x)
        workers.push_back(new Worker);
    countdown.begin(blocks.size() * block_size.x);
    auto worker = workers.begin();
    for (auto& owner : blocks)
        for (unsigned t = 0; t < block_size.x; t++)
            (*worker++)->start([=, block = owner.get()] {
                std::snprintf(place, sizeof place, "%u,%u,%u", block->x, block->y, t);
                name_thread(place);
                const checked::Thread thread = {{t, 0, 0}, {block->x, block->y, 0}, block_size, grid_size, block->shared.data(),
                    &block->barrier, &meet};
                entry(args, &thread);
                block->barrier.end();
                countdown.end_one();
            });
    countdown.wait();
}
