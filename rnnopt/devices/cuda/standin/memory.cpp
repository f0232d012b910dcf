// Device memory, and the accesses that are made to it.
#include "standin.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace standin {

thread_local Accesses* recording = nullptr;

void Accesses::note(std::vector<Range>& closed, Runs& open, Address at, std::size_t size)
{
    for (int n = 0; n < open.count; n++) {
        Range& run = open.run[n];
        if (at >= run.begin && at <= run.end) {
            run.end = std::max(run.end, at + size);
            return;
        }
    }
    if (open.count == OPEN) {
        closed.push_back(open.run[0]);
        std::copy(open.run + 1, open.run + OPEN, open.run);
        open.count--;
    }
    open.run[open.count++] = {at, at + size};
}

static void merge(std::vector<Range>& ranges)
{
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    std::size_t kept = 0;
    for (const Range& range : ranges) {
        if (kept && range.begin <= ranges[kept - 1].end)
            ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
        else
            ranges[kept++] = range;
    }
    ranges.resize(kept);
}

void Accesses::finish()
{
    reads.insert(reads.end(), open_reads.run, open_reads.run + open_reads.count);
    writes.insert(writes.end(), open_writes.run, open_writes.run + open_writes.count);
    open_reads.count = open_writes.count = 0;
    merge(reads);
    merge(writes);
}

bool Memory::reserve()
{
    if (!base) {
        void* found = mmap(nullptr, RESERVED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found == MAP_FAILED)
            return false;
        base = next = reinterpret_cast<Address>(found);
    }
    return true;
}

Address Memory::allocate(std::size_t size)
{
    if (!size || used + size > capacity || next + size + 4096 > base + RESERVED)
        return 0;
    // Addresses are never given out twice: who holds an old one is found out. A page is left between allocations.
    const Address at = next;
    next += (size + 2 * 4096 - 1) / 4096 * 4096;
    std::memset(reinterpret_cast<void*>(at), 0xff, size);
    live[at] = size;
    used += size;
    return at;
}

bool Memory::release(Address at)
{
    auto found = live.find(at);
    if (found == live.end())
        return false;
    madvise(reinterpret_cast<void*>(at), found->second, MADV_DONTNEED);
    used -= found->second;
    freed.insert(*found);
    live.erase(found);
    return true;
}

Range Memory::allocation(Address at) const
{
    auto after = live.upper_bound(at);
    if (after == live.begin())
        return {0, 0};
    --after;
    return at < after->first + after->second ? Range{after->first, after->first + after->second} : Range{0, 0};
}

std::string Memory::fault(Range range) const
{
    const Range inside = allocation(range.begin);
    if (inside.end && range.end <= inside.end)
        return "";
    auto before = freed.upper_bound(range.begin);
    if (before != freed.begin() && range.begin < std::prev(before)->first + std::prev(before)->second)
        return "memory that was freed";
    if (inside.end)
        return std::to_string(range.end - inside.end) + " bytes beyond the end of an allocation of " + std::to_string(inside.end - inside.begin);
    return "memory that was never allocated";
}

}  // namespace standin

// A module is compiled with -fsanitize=thread, and these take the place of that sanitiser: they are told of every access.
using standin::Address;
static inline void note(const void* at, std::size_t size, bool writes)
{
    const auto address = reinterpret_cast<Address>(at);
    if (standin::recording && standin::device().memory.contains(address))
        writes ? standin::recording->write(address, size) : standin::recording->read(address, size);
}

#define ACCESS(size)                                                                     \
    extern "C" void __tsan_read##size(void* at) { note(at, size, false); }                \
    extern "C" void __tsan_write##size(void* at) { note(at, size, true); }                \
    extern "C" void __tsan_read_write##size(void* at) { note(at, size, false); note(at, size, true); }
#define UNALIGNED(size)                                                                  \
    extern "C" void __tsan_unaligned_read##size(void* at) { note(at, size, false); }      \
    extern "C" void __tsan_unaligned_write##size(void* at) { note(at, size, true); }      \
    extern "C" void __tsan_unaligned_read_write##size(void* at) { note(at, size, false); note(at, size, true); }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)
UNALIGNED(2) UNALIGNED(4) UNALIGNED(8) UNALIGNED(16)
extern "C" void __tsan_read_range(void* at, std::size_t size) { note(at, size, false); }
extern "C" void __tsan_write_range(void* at, std::size_t size) { note(at, size, true); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit(void*) {}
