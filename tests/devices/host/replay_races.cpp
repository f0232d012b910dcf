// Replays random programs by the native executor, under ThreadSanitizer.
//
// Usage: replay_races SEED STREAMS WORKERS DROPPED. Operations read two cells of
// a small memory and write a third: what they wait for is found by comparing all
// pairs. With DROPPED = n > 0, each n-th operation waits for nothing. Exits with
// 1 where the memory is not what one operation after the other would have left.
#include "executor.cpp"

#include <cstdio>
#include <cstdlib>
#include <random>

constexpr int OPERATIONS = 600, CELLS = 12, REPLAYS = 15;

struct Access { int a, b, out; };

static uint64_t mix(uint64_t a, uint64_t b, int number) { return a * 31 + b * 17 + number; }

// args: memory, a, b, out, number
static void touch(void* const* args, int, int)
{
    uint64_t* memory = *(uint64_t**)args[0];
    auto value = [&](int n) { return *(int64_t*)args[n]; };
    memory[value(3)] = mix(memory[value(1)], memory[value(2)], (int)value(4));
}

int main(int, char** argv)
{
    const int seed = atoi(argv[1]), streams = atoi(argv[2]), workers = atoi(argv[3]), dropped = atoi(argv[4]);
    std::mt19937 random(seed);
    auto below = [&](int n) { return (int)(random() % n); };

    std::vector<Access> access(OPERATIONS);
    std::vector<int> stream_of(OPERATIONS);
    std::vector<Operation> operations;
    std::vector<int64_t> slots, waits;
    std::vector<Relocation> relocations;
    std::vector<std::vector<int64_t>> lists(streams);
    for (int n = 0; n < OPERATIONS; n++) {
        access[n] = {below(CELLS), below(CELLS), below(CELLS)};
        stream_of[n] = below(streams);
        lists[stream_of[n]].push_back(n);
        const int64_t first_wait = waits.size();
        for (int k = 0; k < n && !(dropped && n % dropped == 0); k++) {
            const Access &x = access[k], &y = access[n];
            const bool conflict = x.out == y.out || x.out == y.a || x.out == y.b || x.a == y.out || x.b == y.out;
            if (conflict && stream_of[k] != stream_of[n])
                waits.push_back(k);
        }
        relocations.push_back({(int64_t)slots.size(), 0, 0});
        operations.push_back({LAUNCH, (int64_t)&touch, (int64_t)slots.size(), 5, first_wait, (int64_t)waits.size() - first_wait});
        slots.insert(slots.end(), {0, access[n].a, access[n].b, access[n].out, n});
    }
    std::vector<int64_t> list, start{0};
    for (auto& part : lists) {
        list.insert(list.end(), part.begin(), part.end());
        start.push_back(list.size());
    }
    std::vector<uint32_t> done(OPERATIONS);
    Program program{operations.data(), slots.data(), waits.data(), relocations.data(), (int64_t)relocations.size(), list.data(),
                    start.data(), streams, workers, done.data(), nullptr, nullptr};

    std::vector<uint64_t> memory(CELLS, 1), expected(CELLS, 1);
    const int64_t bases[] = {(int64_t)memory.data()};
    for (uint32_t replay = 1; replay <= REPLAYS; replay++) {
        for (int n = 0; n < OPERATIONS; n++)
            expected[access[n].out] = mix(expected[access[n].a], expected[access[n].b], n);
        if (rnnopt_replay(&program, bases, replay)) {
            puts("no thread");
            return 2;
        }
        if (memory != expected) {
            printf("replay %u left something else\n", replay);
            return 1;
        }
    }
    puts("right");
}
