// Who touched each place of device memory last, and whether that is ordered with who touches it now.
#include "standin.h"

#include <algorithm>

namespace standin {

void join(Clock& into, const Clock& other)
{
    if (into.size() < other.size())
        into.resize(other.size());
    for (std::size_t n = 0; n < other.size(); n++)
        into[n] = std::max(into[n], other[n]);
}

void Races::split(Address at)
{
    auto after = segments.upper_bound(at);
    if (after == segments.begin())
        return;
    auto found = std::prev(after);
    if (found->first < at && at < found->second.end) {
        Segment right = found->second;
        found->second.end = at;
        segments.emplace(at, std::move(right));
    }
}

std::string Races::visit(const Operation& operation, Range range, bool writes)
{
    split(range.begin);
    split(range.end);
    const Access now{operation.stream, operation.tick, operation.name};
    auto unordered = [&](const Access& earlier) { return reached(operation.clock, earlier.stream) < earlier.tick; };
    auto told = [&](const Access& earlier, const char* did, Address begin, Address end) {
        const Range whole = device().memory.allocation(begin);
        return *operation.name + " on stream " + std::to_string(operation.stream) + (writes ? " writes " : " reads ") +
               "bytes " + std::to_string(begin - whole.begin) + " to " + std::to_string(end - whole.begin) + " of an allocation of " +
               std::to_string(whole.end - whole.begin) + " that " + *earlier.name + " on stream " + std::to_string(earlier.stream) + " " + did +
               ", and nothing orders the two: record an event after the one and let the other's stream wait for it";
    };
    Address at = range.begin;
    auto found = segments.lower_bound(at);
    while (at < range.end) {
        if (found == segments.end() || found->first > at) {  // nobody was here
            const Address end = found == segments.end() ? range.end : std::min(range.end, found->first);
            Segment fresh{end, writes, now, {}};
            if (!writes)
                fresh.reads.push_back(now);
            found = segments.emplace_hint(found, at, std::move(fresh));
        } else {
            Segment& segment = found->second;
            if (segment.written && unordered(segment.write))
                return told(segment.write, "writes", at, segment.end);
            if (writes) {
                for (const Access& reader : segment.reads)
                    if (unordered(reader))
                        return told(reader, "reads", at, segment.end);
                segment = {segment.end, true, now, {}};
            } else {
                auto same = std::find_if(segment.reads.begin(), segment.reads.end(), [&](const Access& r) { return r.stream == now.stream; });
                if (same == segment.reads.end())
                    segment.reads.push_back(now);
                else
                    *same = now;
            }
        }
        at = found->second.end;
        ++found;
    }
    if (writes) {  // one segment for all that was written, so that their number does not grow
        segments.erase(segments.lower_bound(range.begin), segments.lower_bound(range.end));
        segments[range.begin] = {range.end, true, now, {}};
    }
    return "";
}

std::string Races::check(const Operation& operation, const Accesses& accesses)
{
    for (bool writes : {false, true})
        for (const Range& range : writes ? accesses.writes : accesses.reads)
            if (std::string race = visit(operation, range, writes); !race.empty())
                return race;
    return "";
}

void Races::forget(Range range)
{
    split(range.begin);
    split(range.end);
    segments.erase(segments.lower_bound(range.begin), segments.lower_bound(range.end));
}

}  // namespace standin
