// What the rivals share: checked calls, numbers that are the same everywhere, timing, rows.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// Exit codes: 0, all answers right; 1, a wrong answer; 2, could not run.
#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t error = (call);                                                                          \
        if (error != cudaSuccess) {                                                                          \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));              \
            std::exit(2);                                                                                    \
        }                                                                                                    \
    } while (0)

/// SplitMix64's finaliser: one-to-one, and the same numbers on every card and in every run.
__host__ __device__ inline u64 mix(u64 x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/// MurmurHash3's 32-bit finaliser, shifted: one-to-one, too.
__host__ __device__ inline u32 mix(u32 x) {
    x += 0x9e3779b9u;
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}

/// Milliseconds of some runs.
struct Times {
    float median, min, max;
};

/// Times `call` by device events in `runs` runs, after 2 more; `prepare` precedes each, outside the time.
template <class Prepare, class Call>
Times measure_prepared(Prepare prepare, Call call, int runs = 5) {
    const int warm_ups = 2;
    cudaEvent_t start, end;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    std::vector<float> times;
    for (int run = 0; run < warm_ups + runs; ++run) {
        prepare();
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaEventRecord(start));
        call();
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaGetLastError());
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, start, end));
        if (run >= warm_ups) times.push_back(ms);
    }
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(end));
    std::sort(times.begin(), times.end());
    return {times[times.size() / 2], times.front(), times.back()};
}

template <class Call>
Times measure(Call call, int runs = 5) {
    return measure_prepared([] {}, call, runs);
}

/// Times a call of CUB, `call(scratch, bytes)`; it is asked first for the size of its scratch memory.
template <class Call>
Times measure_cub(Call call, int runs = 5) {
    std::size_t bytes = 0;
    CHECK(call(nullptr, bytes));
    void* scratch = nullptr;
    CHECK(cudaMalloc(&scratch, std::max<std::size_t>(bytes, 1)));
    const Times times = measure([&] { CHECK(call(scratch, bytes)); }, runs);
    CHECK(cudaFree(scratch));
    return times;
}

/// The NVIDIA driver's version, as its management library says it; empty where that library is not found.
inline std::string driver_version() {
    char version[96] = "";
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library) {
        const auto start = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
        const auto ask = reinterpret_cast<int (*)(char*, unsigned)>(dlsym(library, "nvmlSystemGetDriverVersion"));
        if (!start || !ask || start() != 0 || ask(version, sizeof version) != 0) version[0] = 0;
    }
    return version;
}

/// What is measured, beside the times. README.md says what the columns mean.
struct Row {
    std::string rival, setting, operation, key, value;
    u64 n, batch;
    double hit_rate;
    std::string order;
    /// What `g_per_s` counts, and how many of them one run does.
    std::string unit;
    u64 count;
    double bytes_per_pair;
};

/// Prints rows, a table to stderr and JSON lines to stdout; remembers whether an answer was wrong.
class Report {
    std::string card, driver;
    bool all_right = true;

  public:
    explicit Report(const char* versions) : driver(driver_version()) {
        cudaDeviceProp properties;
        CHECK(cudaGetDeviceProperties(&properties, 0));
        card = properties.name;
        std::fprintf(stderr, "%s, driver %s, %s\n", card.c_str(), driver.c_str(), versions);
        std::fprintf(stderr, "%-26s %-22s %-12s %-7s %-5s %5s %5s %5s %-7s %9s %9s %-14s %6s\n", "rival", "setting",
                     "operation", "key", "value", "n", "batch", "hits", "order", "ms", "G/s", "of", "B/pair");
    }

    void row(const Row& row, Times times, bool right) {
        all_right &= right;
        const double giga = row.count / (times.median * 1e6);
        std::fprintf(stderr, "%-26s %-22s %-12s %-7s %-5s %5s %5s %5.2f %-7s %9.4f %9.3f %-14s %6.2f%s\n",
                     row.rival.c_str(), row.setting.c_str(), row.operation.c_str(), row.key.c_str(), row.value.c_str(),
                     power(row.n).c_str(), power(row.batch).c_str(), row.hit_rate, row.order.c_str(), times.median,
                     giga, row.unit.c_str(), row.bytes_per_pair, right ? "" : "   WRONG");
        std::printf("{\"rival\":\"%s\",\"setting\":\"%s\",\"operation\":\"%s\",\"key\":\"%s\",\"value\":\"%s\","
                    "\"n\":%llu,\"batch\":%llu,\"hit_rate\":%.2f,\"order\":\"%s\",\"ms\":%.5f,\"min_ms\":%.5f,"
                    "\"max_ms\":%.5f,\"g_per_s\":%.3f,\"of\":\"%s\",\"bytes_per_pair\":%.2f,\"right\":%s,"
                    "\"card\":\"%s\",\"driver\":\"%s\"}\n",
                    row.rival.c_str(), row.setting.c_str(), row.operation.c_str(), row.key.c_str(), row.value.c_str(),
                    (unsigned long long)row.n, (unsigned long long)row.batch, row.hit_rate, row.order.c_str(),
                    times.median, times.min, times.max, giga, row.unit.c_str(), row.bytes_per_pair,
                    right ? "true" : "false", card.c_str(), driver.c_str());
        std::fflush(stdout);
    }

    int exit_code() const { return all_right ? 0 : 1; }

  private:
    static std::string power(u64 count) {
        int bits = 0;
        while (count >> bits > 1) ++bits;
        return count == u64{1} << bits ? "2^" + std::to_string(bits) : std::to_string(count);
    }
};
