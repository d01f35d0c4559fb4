// CUB's radix sort, on the inputs that Lanetree's is measured with. Not part of the product's build:
//
//     nvcc -O3 -std=c++17 -arch=native cub_radix_sort.cu -o cub_radix_sort && ./cub_radix_sort [log2 n]
//
// Prints a line for each pair of types and range of bits: the median of 9 sorts of random keys that lie in
// device memory, without allocation, in 10^9 elements per second.
#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t error = (call);                                                     \
        if (error != cudaSuccess) {                                                     \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));         \
            std::exit(2);                                                               \
        }                                                                               \
    } while (0)

// SplitMix64 of the index: the same numbers everywhere.
template <typename Word>
__global__ void fill(Word* words, std::uint64_t count, std::uint64_t seed) {
    std::uint64_t i = blockIdx.x * std::uint64_t(blockDim.x) + threadIdx.x;
    if (i < count) {
        std::uint64_t z = (seed + i) * 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        words[i] = static_cast<Word>(z ^ (z >> 31));
    }
}

template <typename Word>
Word* allocate(std::uint64_t count) {
    Word* words;
    CHECK(cudaMalloc(&words, count * sizeof(Word)));
    return words;
}

template <typename Sort>
void measure(const char* name, std::uint64_t count, Sort sort) {
    std::size_t bytes = 0;
    CHECK(sort(nullptr, bytes));
    void* scratch;
    CHECK(cudaMalloc(&scratch, bytes));
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    std::vector<float> times;
    for (int round = 0; round < 11; ++round) {
        CHECK(cudaEventRecord(start));
        CHECK(sort(scratch, bytes));
        CHECK(cudaEventRecord(stop));
        CHECK(cudaEventSynchronize(stop));
        float time;
        CHECK(cudaEventElapsedTime(&time, start, stop));
        if (round >= 2) times.push_back(time);
    }
    std::sort(times.begin(), times.end());
    float median = times[times.size() / 2];
    std::printf("cub %-20s %7.3f ms %6.2f G/s\n", name, median, count / (median * 1e6));
    CHECK(cudaFree(scratch));
}

// Each round sorts the same unsorted input: with a double buffer the second would find it sorted.
template <typename Key, typename Value>
void pairs(const char* name, std::uint64_t count, int begin, int end) {
    Key *keys = allocate<Key>(count), *keys_out = allocate<Key>(count);
    Value *values = allocate<Value>(count), *values_out = allocate<Value>(count);
    unsigned blocks = static_cast<unsigned>((count + 255) / 256);
    fill<<<blocks, 256>>>(keys, count, 1);
    fill<<<blocks, 256>>>(values, count, count + 1);
    measure(name, count, [&](void* scratch, std::size_t& bytes) {
        return cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, keys_out, values, values_out, count, begin, end);
    });
    for (void* memory : {(void*)keys, (void*)keys_out, (void*)values, (void*)values_out}) CHECK(cudaFree(memory));
}

template <typename Key>
void alone(const char* name, std::uint64_t count, int begin, int end) {
    Key *keys = allocate<Key>(count), *keys_out = allocate<Key>(count);
    fill<<<static_cast<unsigned>((count + 255) / 256), 256>>>(keys, count, 1);
    measure(name, count, [&](void* scratch, std::size_t& bytes) {
        return cub::DeviceRadixSort::SortKeys(scratch, bytes, keys, keys_out, count, begin, end);
    });
    for (void* memory : {(void*)keys, (void*)keys_out}) CHECK(cudaFree(memory));
}

int main(int argc, char** argv) {
    std::uint64_t count = std::uint64_t(1) << (argc > 1 ? std::atoi(argv[1]) : 26);
    pairs<std::uint64_t, std::uint32_t>("u64_u32 all 64 bits", count, 0, 64);
    pairs<std::uint64_t, std::uint32_t>("u64_u32 top 16 bits", count, 48, 64);
    pairs<std::uint64_t, std::uint32_t>("u64_u32 top 8 bits", count, 56, 64);
    pairs<std::uint64_t, std::uint64_t>("u64_u64 all 64 bits", count, 0, 64);
    pairs<std::uint32_t, std::uint32_t>("u32_u32 all 32 bits", count, 0, 32);
    pairs<std::uint32_t, std::uint64_t>("u32_u64 all 32 bits", count, 0, 32);
    alone<std::uint64_t>("u64 all 64 bits", count, 0, 64);
    alone<std::uint32_t>("u32 all 32 bits", count, 0, 32);
}
