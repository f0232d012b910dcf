// Queues, events and captured graphs.
#include "standin.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace standin {

Device& device()
{
    static Device* one = new Device;  // never destroyed: PyCUDA may call until the very end
    return *one;
}

int Device::new_stream()
{
    queues.emplace_back();
    issued.push_back(0);
    executed.push_back(0);
    return (int)queues.size() - 1;
}

constexpr unsigned NON_BLOCKING = 1;

Code Device::issue(Stream* stream, const std::string& name, std::function<void(Accesses&)> run)
{
    if (failed)
        return failed;
    auto named = std::make_shared<const std::string>(name);
    if (stream->capture) {
        Capture& capture = *stream->capture;
        if (capture.invalid)
            return refuse(CAPTURE_INVALIDATED, "the capture that this stream takes part in is no longer valid");
        if (stream->captured.size() <= (std::size_t)stream->place)
            stream->captured.resize(stream->place + 1);
        stream->captured[stream->place] = ++capture.ticks[stream->place];
        capture.graph->nodes.push_back({stream->place, stream->captured, named, std::move(run)});
        return OK;
    }
    Clock clock = stream->clock;
    // The default stream and those that were not made NON_BLOCKING come after one another.
    if (stream->index == 0) {
        if (Code code = unless_capturing("the default stream"))
            return code;
        for (const Stream* other : all)
            if (!(other->flags & NON_BLOCKING))
                join(clock, other->clock);
    } else if (!(stream->flags & NON_BLOCKING)) {
        for (const Stream* other : all)
            if (other->index == 0)
                join(clock, other->clock);
    }
    Code code = enqueue(stream->index, std::move(clock), named, std::move(run));
    stream->clock = queues[stream->index].pending.back().clock;
    return code;
}

Code Device::enqueue(int index, Clock clock, std::shared_ptr<const std::string> name, std::function<void(Accesses&)> run)
{
    join(clock, host);
    if (clock.size() <= (std::size_t)index)
        clock.resize(index + 1);
    clock[index] = ++issued[index];
    queues[index].pending.push_back({index, issued[index], std::move(clock), std::move(name), std::move(run)});
    return OK;
}

bool Device::ready(const Operation& operation) const
{
    for (int n = 0; n < (int)operation.clock.size(); n++)
        if (n != operation.stream && executed[n] < operation.clock[n])
            return false;
    return true;
}

bool Device::run_one()
{
    std::vector<int> candidates;
    for (int n = 0; n < (int)queues.size(); n++)
        if (queues[n].first < queues[n].pending.size() && ready(queues[n].pending[queues[n].first]))
            candidates.push_back(n);
    if (failed || candidates.empty())
        return false;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    Queue& queue = queues[candidates[(state >> 33) % candidates.size()]];
    Operation operation = std::move(queue.pending[queue.first++]);
    if (queue.first == queue.pending.size()) {
        queue.pending.clear();
        queue.first = 0;
    }
    execute(std::move(operation));
    return true;
}

void Device::execute(Operation operation)
{
    Accesses accesses;
    operation.run(accesses);
    accesses.finish();
    executed[operation.stream] = operation.tick;
    if (failed)
        return;
    for (bool writes : {false, true})
        for (const Range& range : writes ? accesses.writes : accesses.reads)
            if (std::string fault = memory.fault(range); !fault.empty()) {
                failed = ILLEGAL_ADDRESS;
                message = *operation.name + (writes ? " writes to " : " reads ") + fault;
                return;
            }
    if (std::string race = races.check(operation, accesses); !race.empty()) {
        failed = LAUNCH_FAILED;
        message = race;
    }
}

Code Device::drain(const std::function<bool()>& until)
{
    while (!failed && !until())
        if (!run_one())
            break;
    return failed;
}

bool Device::reached_by_now(const Clock& clock) const
{
    for (int n = 0; n < (int)clock.size(); n++)
        if (executed[n] < clock[n])
            return false;
    return true;
}

bool Device::done(const Stream* stream) const { return reached_by_now(stream->clock); }
bool Device::done(const Event* event) const { return !event->recorded || executed[event->stream] >= event->tick; }

Code Device::unless_capturing(const char* what)
{
    for (auto& capture : captures)
        if (capture->mode != 2) {  // relaxed
            capture->invalid = true;
            return refuse(CAPTURE_IMPLICIT, std::string(what) + " may not be used while a stream is being captured");
        }
    return OK;
}

static Code while_capturing(Device& device, Capture& capture)
{
    capture.invalid = true;
    return device.refuse(CAPTURE_UNSUPPORTED, "a stream that is being captured can't be waited for: nothing of it runs before its graph is launched");
}

Code Device::synchronise(Stream* stream)
{
    if (stream->capture)
        return while_capturing(*this, *stream->capture);
    Clock clock = stream->clock;
    if (stream->index == 0)
        for (const Stream* other : all)
            if (!(other->flags & NON_BLOCKING))
                join(clock, other->clock);
    Code code = drain([&] { return reached_by_now(clock); });
    join(host, clock);
    return code;
}

Code Device::synchronise(Event* event)
{
    if (auto capture = event->capture.lock())
        return while_capturing(*this, *capture);
    Code code = drain([&] { return done(event); });
    if (event->recorded)
        join(host, event->clock);
    return code;
}

Code Device::synchronise()
{
    for (auto& capture : captures)
        return while_capturing(*this, *capture);
    Code code = drain([] { return false; });
    join(host, issued);
    return code;
}

Code Device::record(Event* event, Stream* stream)
{
    event->capture.reset();
    event->was_captured = false;
    if (stream->capture) {
        event->capture = stream->capture;
        event->was_captured = true;
        event->captured = stream->captured;
        event->recorded = false;
        return stream->capture->invalid ? CAPTURE_INVALIDATED : OK;
    }
    auto time = event->milliseconds = std::make_shared<double>(-1);
    Code code = issue(stream, "an event", [time](Accesses&) {
        const auto now = std::chrono::steady_clock::now().time_since_epoch();
        *time = std::chrono::duration<double, std::milli>(now).count();
    });
    if (code)
        return code;
    event->recorded = true;
    event->clock = stream->clock;
    event->stream = stream->index;
    event->tick = issued[stream->index];
    return OK;
}

Code Device::wait(Stream* stream, Event* event)
{
    if (failed)
        return failed;
    auto capture = event->capture.lock();
    if (event->was_captured && !capture)
        return refuse(INVALID_VALUE, "this event belongs to a capture that has ended");
    if (stream->capture && stream->capture != capture) {
        if (!event->recorded && !capture)
            return OK;
        stream->capture->invalid = true;
        return refuse(CAPTURE_ISOLATION, "a stream that is being captured can't wait for an event from outside of the capture");
    }
    if (!capture) {
        if (event->recorded)
            join(stream->clock, event->clock);
        return OK;
    }
    if (!stream->capture) {  // it takes part from now on
        stream->capture = capture;
        stream->place = (int)capture->streams.size();
        stream->captured.clear();
        capture->streams.push_back(stream);
        capture->ticks.push_back(0);
    }
    join(stream->captured, event->captured);
    return OK;
}

Code Device::begin_capture(Stream* stream, int mode)
{
    if (failed)
        return failed;
    if (stream->index == 0)
        return refuse(CAPTURE_IMPLICIT, "the default stream can't be captured");
    if (stream->capture)
        return refuse(INVALID_VALUE, "this stream is being captured already");
    auto capture = std::make_shared<Capture>();
    capture->graph = new Graph;
    capture->graph->kind = Handle::GRAPH;
    capture->graph->owner = stream->owner;
    capture->origin = stream;
    capture->streams = {stream};
    capture->ticks = {0};
    capture->mode = mode;
    stream->capture = capture;
    stream->place = 0;
    stream->captured.clear();
    captures.push_back(capture);
    return OK;
}

Code Device::end_capture(Stream* stream, Graph** graph)
{
    auto capture = stream->capture;
    if (!capture || capture->origin != stream)
        return refuse(INVALID_VALUE, "this stream is not where a capture began");
    captures.erase(std::find(captures.begin(), captures.end(), capture));
    bool joined = true;
    for (int n = 0; n < (int)capture->ticks.size(); n++)
        joined &= reached(stream->captured, n) >= capture->ticks[n];
    for (Stream* part : capture->streams)
        part->capture.reset();
    capture->graph->streams = (int)capture->streams.size();
    if (!capture->invalid && joined) {
        *graph = capture->graph;
        return OK;
    }
    delete capture->graph;
    if (capture->invalid)
        return refuse(CAPTURE_INVALIDATED, "something happened during the capture that a capture forbids");
    return refuse(CAPTURE_UNJOINED, "a stream was captured whose last operation the capture's first stream does not wait for");
}

Code Device::launch(Executable* executable, Stream* stream)
{
    if (stream->capture)
        return refuse(NOT_SUPPORTED, "the stand-in captures no graph inside of a graph");
    if (Code code = issue(stream, "the launch of a graph", [](Accesses&) {}))
        return code;
    // What it launched last time comes first: a graph does not run beside itself.
    Clock base = stream->clock;
    join(base, executable->clock);
    Clock offset;
    for (int index : executable->streams)
        offset.push_back(issued[index]);
    for (const Node& node : executable->graph.nodes) {
        Clock clock = base;
        for (int n = 0; n < (int)node.clock.size(); n++) {
            const int index = executable->streams[n];
            if (clock.size() <= (std::size_t)index)
                clock.resize(index + 1);
            if (node.clock[n])
                clock[index] = std::max(clock[index], offset[n] + node.clock[n]);
        }
        enqueue(executable->streams[node.stream], std::move(clock), node.name, node.run);
        join(executable->clock, queues[executable->streams[node.stream]].pending.back().clock);
    }
    join(stream->clock, executable->clock);
    return issue(stream, "the end of a graph", [](Accesses&) {});
}

}  // namespace standin
