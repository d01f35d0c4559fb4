// CUB's radix sort, on the inputs that Lanetree's is measured with. Not part of the product's build:
//
//     nvcc -O3 -std=c++17 -arch=native cub_radix_sort.cu -o cub_radix_sort && ./cub_radix_sort [log2 n]
//
// Prints a line for each pair of types and range of bits: the median of 9 sorts of random keys that lie in
// device memory, without allocation, in 10^9 elements per second.
#include "measure.cuh"

#include <cub/device/device_radix_sort.cuh>

template <typename Word>
__global__ void fill(Word* words, u64 count, u64 seed) {
    u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x;
    if (i < count) words[i] = static_cast<Word>(mix(seed + i));
}

template <typename Word>
Word* allocate(u64 count) {
    Word* words;
    CHECK(cudaMalloc(&words, count * sizeof(Word)));
    return words;
}

template <typename Sort>
void report(const char* name, u64 count, Sort sort) {
    const float median = measure_cub(sort, 9).median;
    std::printf("cub %-20s %7.3f ms %6.2f G/s\n", name, median, count / (median * 1e6));
}

// Each round sorts the same unsorted input: with a double buffer the second would find it sorted.
template <typename Key, typename Value>
void pairs(const char* name, u64 count, int begin, int end) {
    Key *keys = allocate<Key>(count), *keys_out = allocate<Key>(count);
    Value *values = allocate<Value>(count), *values_out = allocate<Value>(count);
    unsigned blocks = static_cast<unsigned>((count + 255) / 256);
    fill<<<blocks, 256>>>(keys, count, 1);
    fill<<<blocks, 256>>>(values, count, count + 1);
    report(name, count, [&](void* scratch, std::size_t& bytes) {
        return cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, keys_out, values, values_out, count, begin, end);
    });
    for (void* memory : {(void*)keys, (void*)keys_out, (void*)values, (void*)values_out}) CHECK(cudaFree(memory));
}

template <typename Key>
void alone(const char* name, u64 count, int begin, int end) {
    Key *keys = allocate<Key>(count), *keys_out = allocate<Key>(count);
    fill<<<static_cast<unsigned>((count + 255) / 256), 256>>>(keys, count, 1);
    report(name, count, [&](void* scratch, std::size_t& bytes) {
        return cub::DeviceRadixSort::SortKeys(scratch, bytes, keys, keys_out, count, begin, end);
    });
    for (void* memory : {(void*)keys, (void*)keys_out}) CHECK(cudaFree(memory));
}

int main(int argc, char** argv) {
    u64 count = u64(1) << (argc > 1 ? std::atoi(argv[1]) : 26);
    pairs<u64, u32>("u64_u32 all 64 bits", count, 0, 64);
    pairs<u64, u32>("u64_u32 top 16 bits", count, 48, 64);
    pairs<u64, u32>("u64_u32 top 8 bits", count, 56, 64);
    pairs<u64, u64>("u64_u64 all 64 bits", count, 0, 64);
    pairs<u32, u32>("u32_u32 all 32 bits", count, 0, 32);
    pairs<u32, u64>("u32_u64 all 32 bits", count, 0, 32);
    alone<u64>("u64 all 64 bits", count, 0, 64);
    alone<u32>("u32 all 32 bits", count, 0, 32);
}
