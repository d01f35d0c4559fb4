// What CUB's device-wide primitives do on this card, for comparison with Lanetree's.
//
//   nvcc -O3 -std=c++17 -arch=native cub_primitives.cu -o cub_primitives && ./cub_primitives [log2 of n]
//
// Each row is the median of 7 runs after 2 more, by device events, over device memory that was allocated
// before; scratch memory too. A row is checked by one of its results, or by their sum. Writes a table to
// stderr and JSON lines to stdout. README.md says what is in a row.

#include "measure.cuh"

#include <cub/cub.cuh>
#include <cuda/std/tuple>
#include <thrust/device_vector.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/sequence.h>
#include <thrust/tabulate.h>
#include <thrust/transform_reduce.h>

bool all_right = true;

/// The median of 7 runs of a call of CUB, in milliseconds.
template <class Call>
float median_ms(Call call) {
    return measure_cub(call, 7).median;
}

void report(const char* name, u64 elements, double bytes_per_element, float ms, bool right) {
    all_right &= right;
    const double giga = elements / (ms * 1e6);
    std::fprintf(stderr, "%-44s %8.1f G/s %8.3f ms %7.2f TB/s%s\n", name, giga, ms, giga * bytes_per_element / 1e3,
                 right ? "" : "   WRONG");
    std::printf("{\"program\":\"cub_primitives\",\"operation\":\"%s\",\"elements\":%llu,\"ms\":%.5f,"
                "\"g_per_s\":%.3f,\"bytes_per_element\":%.2f,\"right\":%s}\n",
                name, (unsigned long long)elements, ms, giga, bytes_per_element, right ? "true" : "false");
}

/// Random words below a bound, a power of two.
template <class T>
struct Random {
    u64 bound;
    __host__ __device__ T operator()(u64 i) const { return T(bound ? mix(i) & (bound - 1) : mix(i)); }
};

/// A value in 64 bits, which sums of values need.
struct Widen {
    __host__ __device__ u64 operator()(u32 value) const { return value; }
};

/// Runs of 1 to 7 equal keys, 4 on average.
struct RunKey {
    __host__ __device__ u64 operator()(u64 i) const { return i < 4 || i % 4 ? i / 4 : (i - mix(i / 4) % 4) / 4; }
};

/// Ascending keys with gaps; every `stride`th of them, with another jitter.
struct Ascending {
    u64 stride, seed;
    __host__ __device__ u64 operator()(u64 i) const { return (i * stride) << 24 | mix(i ^ seed) >> 40; }
};

struct PopulationCount {
    __host__ __device__ u64 operator()(u32 word) const {
        u64 bits = 0;
        for (; word; word &= word - 1) ++bits;
        return bits;
    }
};

/// A bit of a word array, as the flag of an element.
struct Bit {
    const u32* words;
    __host__ __device__ bool operator()(u64 i) const { return words[i / 32] >> (i % 32) & 1; }
};

template <class T>
T* raw(thrust::device_vector<T>& vector) {
    return thrust::raw_pointer_cast(vector.data());
}

template <class T>
T at(const thrust::device_vector<T>& vector, u64 i) {
    return vector[i];
}

template <class T>
void scan(const char* name, u64 n) {
    thrust::device_vector<T> in(n);
    thrust::device_vector<u64> out(n);
    thrust::tabulate(in.begin(), in.end(), Random<T>{16});
    const float ms = median_ms([&](void* scratch, std::size_t& bytes) {
        return cub::DeviceScan::ExclusiveScan(scratch, bytes, raw(in), raw(out), cuda::std::plus<>{}, u64{0}, (long long)n);
    });
    const u64 sum = thrust::reduce(in.begin(), in.end() - 1, u64{0}, cuda::std::plus<u64>{});
    report(name, n, sizeof(T) + 8.0, ms, at(out, n - 1) == sum);
}

void select(u64 n) {
    thrust::device_vector<u64> keys(n), out_keys(n), count(1);
    thrust::device_vector<u32> values(n), out_values(n), bits(n / 32);
    thrust::device_vector<unsigned char> flags(n);
    thrust::sequence(keys.begin(), keys.end());
    thrust::sequence(values.begin(), values.end());
    thrust::tabulate(bits.begin(), bits.end(), Random<u32>{0});
    const Bit bit{raw(bits)};
    thrust::tabulate(flags.begin(), flags.end(), bit);
    const u64 expected = thrust::transform_reduce(bits.begin(), bits.end(), PopulationCount{}, u64{0}, cuda::std::plus<>{});
    const double share = double(expected) / n;
    const auto by_bit = thrust::make_transform_iterator(thrust::counting_iterator<u64>(0), bit);

    float ms = median_ms([&](void* scratch, std::size_t& bytes) {
        return cub::DeviceSelect::Flagged(scratch, bytes, raw(keys), raw(flags), raw(out_keys), raw(count), (long long)n);
    });
    report("select u64, byte flags", n, 8 + 1 + 8 * share, ms, at(count, 0) == expected);
    ms = median_ms([&](void* scratch, std::size_t& bytes) {
        return cub::DeviceSelect::Flagged(scratch, bytes, raw(keys), by_bit, raw(out_keys), raw(count), (long long)n);
    });
    report("select u64, bits", n, 8 + 0.125 + 8 * share, ms, at(count, 0) == expected);
    const auto in = thrust::make_zip_iterator(keys.begin(), values.begin());
    const auto out = thrust::make_zip_iterator(out_keys.begin(), out_values.begin());
    ms = median_ms([&](void* scratch, std::size_t& bytes) {
        return cub::DeviceSelect::Flagged(scratch, bytes, in, by_bit, out, raw(count), (long long)n);
    });
    report("select (u64,u32), bits", n, 12 + 0.125 + 12 * share, ms, at(count, 0) == expected);
    ms = median_ms([&](void* scratch, std::size_t& bytes) {
        return cub::DevicePartition::Flagged(scratch, bytes, in, by_bit, out, raw(count), (long long)n);
    });
    report("partition (u64,u32), bits (others reversed)", n, 24 + 0.125, ms, at(count, 0) == expected);
}

void runs(u64 n) {
    thrust::device_vector<u64> keys(n), out_keys(n), sums(n), count(1);
    thrust::device_vector<u32> values(n), lengths(n);
    thrust::tabulate(keys.begin(), keys.end(), RunKey{});
    thrust::tabulate(values.begin(), values.end(), Random<u32>{0});
    float ms = median_ms([&](void* scratch, std::size_t& bytes) {
        return cub::DeviceRunLengthEncode::Encode(scratch, bytes, raw(keys), raw(out_keys), raw(lengths), raw(count), (int)n);
    });
    const u64 found = at(count, 0);
    const double share = double(found) / n;
    const u64 total = thrust::reduce(lengths.begin(), lengths.begin() + found, u64{0});
    report("run lengths u64 to u32", n, 8 + 12 * share, ms, total == n);
    const auto wide = thrust::make_transform_iterator(raw(values), Widen{});
    ms = median_ms([&](void* scratch, std::size_t& bytes) {
        return cub::DeviceReduce::ReduceByKey(scratch, bytes, raw(keys), raw(out_keys), wide, raw(sums),
                                              raw(count), cuda::std::plus<>{}, (int)n);
    });
    const u64 sum = thrust::transform_reduce(values.begin(), values.end(), Widen{}, u64{0}, cuda::std::plus<>{});
    const u64 of_sums = thrust::reduce(sums.begin(), sums.begin() + found, u64{0});
    report("sum by key (u64,u32) to u64", n, 12 + 16 * share, ms, at(count, 0) == found && of_sums == sum);
    ms = median_ms([&](void* scratch, std::size_t& bytes) {
        return cub::DeviceSelect::Unique(scratch, bytes, raw(keys), raw(out_keys), raw(count), (long long)n);
    });
    report("unique u64", n, 8 + 8 * share, ms, at(count, 0) == found);
}

void merge(const char* name, u64 n, u64 m) {
    thrust::device_vector<u64> a(n), b(m), out(n + m);
    thrust::device_vector<u32> a_values(n), b_values(m), out_values(n + m);
    thrust::tabulate(a.begin(), a.end(), Ascending{1, 0});
    thrust::tabulate(b.begin(), b.end(), Ascending{n / m, 1});
    thrust::sequence(a_values.begin(), a_values.end());
    thrust::sequence(b_values.begin(), b_values.end());
    const float ms = median_ms([&](void* scratch, std::size_t& bytes) {
        return cub::DeviceMerge::MergePairs(scratch, bytes, raw(a), raw(a_values), (long long)n, raw(b), raw(b_values),
                                            (long long)m, raw(out), raw(out_values));
    });
    const bool right = thrust::is_sorted(out.begin(), out.end());
    report(name, n + m, 24, ms, right);
}

int main(int argc, char** argv) {
    const int bits = argc > 1 ? std::atoi(argv[1]) : 26;
    if (bits < 10 || bits > 30) {
        std::fprintf(stderr, "log2 of n: 10 to 30, not %s\n", argv[1]);
        return 2;
    }
    const u64 n = u64{1} << bits;
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    std::fprintf(stderr, "%s, CUB %d.%d.%d, n = 2^%d\n", properties.name, CUB_MAJOR_VERSION, CUB_MINOR_VERSION,
                 CUB_SUBMINOR_VERSION, bits);
    scan<u64>("exclusive sum u64 to u64", n);
    scan<u32>("exclusive sum u32 to u64", n);
    select(n);
    runs(n);
    merge("merge (u64,u32), n + n / 16", n, n / 16);
    merge("merge (u64,u32), n / 2 + n / 2", n / 2, n / 2);
    return all_right ? 0 : 1;
}
