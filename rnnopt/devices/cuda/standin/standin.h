// What the parts of the stand-in driver share.
//
// Nothing runs when it is issued. An operation is queued on its stream with a vector clock: for every
// stream, up to which of its operations this one comes after (by stream order, events, or waits of the
// host). Whoever waits lets the queues run, in an order drawn at random from those that the clocks allow.
// While an operation runs, every access of it to device memory is written down. Two accesses of one
// place, one of them a write, that no clock orders are a race, whatever order was drawn.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace standin {

using Address = std::uintptr_t;
using Clock = std::vector<std::uint32_t>;  // stream -> how many of its operations come before

enum Code {  // the driver's own numbers
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNJOINED = 904, CAPTURE_IMPLICIT = 906, CAPTURE_ISOLATION = 907
};

struct Range { Address begin, end; };

// What one operation reads and writes.
class Accesses {
public:
    void read(Address at, std::size_t size) { note(reads, open_reads, at, size); }
    void write(Address at, std::size_t size) { note(writes, open_writes, at, size); }
    void finish();  // sorts and merges
    std::vector<Range> reads, writes;

private:
    static constexpr int OPEN = 16;  // runs that are growing: a kernel's loop goes along several arrays at once
    struct Runs { Range run[OPEN]; int count = 0; };
    Runs open_reads, open_writes;
    static void note(std::vector<Range>& closed, Runs& open, Address at, std::size_t size);
};

struct Operation {
    int stream;
    std::uint32_t tick;  // its number in the stream, from 1
    Clock clock;
    std::shared_ptr<const std::string> name;
    std::function<void(Accesses&)> run;
};

void join(Clock& into, const Clock& other);
inline std::uint32_t reached(const Clock& clock, int stream) { return stream < (int)clock.size() ? clock[stream] : 0; }

// Device memory: a reservation of its own, so that whether an address is in it is one comparison.
class Memory {
public:
    bool reserve();
    Address allocate(std::size_t size);  // 0 if there is no room; filled with NaN
    bool release(Address at);
    bool contains(Address at) const { return at >= base && at < base + RESERVED; }
    std::string fault(Range range) const;  // empty if all of it is allocated
    Range allocation(Address at) const;    // which `at` is in, or {0, 0}
    std::size_t used = 0, capacity = std::size_t(4) << 30;

private:
    static constexpr std::size_t RESERVED = std::size_t(1) << 38;
    Address base = 0, next = 0;
    std::map<Address, std::size_t> live, freed;
};

class Races {
public:
    std::string check(const Operation& operation, const Accesses& accesses);  // empty if there is none
    void forget(Range range);

private:
    struct Access { int stream; std::uint32_t tick; std::shared_ptr<const std::string> name; };
    struct Segment { Address end; bool written; Access write; std::vector<Access> reads; };
    std::map<Address, Segment> segments;
    void split(Address at);
    std::string visit(const Operation& operation, Range range, bool writes);
};

// What the driver's caller holds pointers to.
struct Context;
struct Handle {
    enum Kind { STREAM, EVENT, MODULE, FUNCTION, GRAPH, EXECUTABLE } kind;
    Context* owner;
};

struct Node { int stream; Clock clock; std::shared_ptr<const std::string> name; std::function<void(Accesses&)> run; };
struct Graph : Handle { int streams = 0; std::vector<Node> nodes; };
struct Executable : Handle { Graph graph; std::vector<int> streams; Clock clock; };

struct Stream;
struct Capture { Graph* graph; Stream* origin; std::vector<Stream*> streams; Clock ticks; bool invalid = false; int mode; };
struct Stream : Handle {
    int index; unsigned flags = 0;
    Clock clock;
    std::shared_ptr<Capture> capture;  // while what is issued goes into a graph
    int place = 0;                     // in the capture
    Clock captured;
};
struct Event : Handle {
    unsigned flags; bool recorded = false; Clock clock; int stream = 0; std::uint32_t tick = 0;
    std::shared_ptr<double> milliseconds = std::make_shared<double>(-1);
    std::weak_ptr<Capture> capture; Clock captured; bool was_captured = false;
};

// Streams, events and graphs, and how the queues run.
class Device {
public:
    Memory memory;
    Races races;
    std::recursive_mutex lock;
    Code failed = OK;        // once something has failed, everything does
    std::string message;     // of that failure, or of the last call that was refused

    Code refuse(Code code, const std::string& why) { message = why; return code; }
    int new_stream();
    Code issue(Stream* stream, const std::string& name, std::function<void(Accesses&)> run);
    Code record(Event* event, Stream* stream);
    Code wait(Stream* stream, Event* event);
    Code synchronise(Stream* stream);
    Code synchronise(Event* event);
    Code synchronise();
    bool done(const Stream* stream) const;
    bool done(const Event* event) const;
    bool run_one();  // false if nothing is left that can run
    Code begin_capture(Stream* stream, int mode);
    Code end_capture(Stream* stream, Graph** graph);
    Code launch(Executable* executable, Stream* stream);
    Code unless_capturing(const char* what);  // for calls that a capture forbids
    void seed(std::uint64_t value) { state = value * 2 + 1; }
    std::vector<Stream*> all;  // for the order between the default stream and those that block for it

private:
    struct Queue { std::vector<Operation> pending; std::size_t first = 0; };
    std::vector<Queue> queues;
    Clock issued, executed, host;
    std::vector<std::shared_ptr<Capture>> captures;
    std::uint64_t state = 0x9E3779B97F4A7C15ull;
    Code enqueue(int index, Clock clock, std::shared_ptr<const std::string> name, std::function<void(Accesses&)> run);
    bool ready(const Operation& operation) const;
    void execute(Operation operation);
    Code drain(const std::function<bool()>& until);
    bool reached_by_now(const Clock& clock) const;
};

Device& device();
extern thread_local Accesses* recording;

}  // namespace standin
