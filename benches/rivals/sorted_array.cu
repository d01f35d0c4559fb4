// A sorted array as an index, by Thrust and CUB, on the work that LaneTree is measured at: look-ups by
// thrust::lower_bound, the build by a radix sort, a batch of inserts by a merge.
//
//   nvcc -O3 -std=c++17 -arch=native --extended-lambda sorted_array.cu -o sorted_array && ./sorted_array
//
// Kernels alone, by device events: the median of 5 runs after 2 more. Every answer is checked. Writes a table
// to stderr and JSON lines to stdout. README.md says what is in a row.

#include "pairs.cuh"

#include <cub/cub.cuh>
#include <thrust/binary_search.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>

const u64 BATCH = u64{1} << 26;
const u64 SMALL_BATCH = u64{1} << 22;

/// The sums of this over two arrays are equal if the arrays hold the same keys.
struct Mixed {
    __host__ __device__ u64 operator()(u64 key) const { return mix(key); }
};

u64 checksum(const thrust::device_vector<u64>& keys) {
    return thrust::transform_reduce(keys.begin(), keys.end(), Mixed{}, u64{0}, cuda::std::plus<>{});
}

/// Whether the keys, which are distinct, ascend and each has its value.
bool in_order(const thrust::device_vector<u64>& keys, const thrust::device_vector<u64>& values) {
    const u64* key = thrust::raw_pointer_cast(keys.data());
    const u64* value = thrust::raw_pointer_cast(values.data());
    return none(keys.size(), [=] __device__(u64 i) {
        return (i > 0 && key[i - 1] >= key[i]) || value[i] != value_of(key[i]);
    });
}

/// Keys `first` to `first + keys.size() - 1`, with their values.
void make_pairs(thrust::device_vector<u64>& keys, thrust::device_vector<u64>& values, u64 first) {
    thrust::tabulate(keys.begin(), keys.end(), [=] __device__(u64 i) { return KeyOf<u64>{}(first + i); });
    thrust::tabulate(values.begin(), values.end(), ValueAt<u64>{raw(keys)});
}

template <class Word>
void lower_bounds(Report& report, u64 n) {
    thrust::device_vector<Word> keys(n), queries(BATCH), found(BATCH);
    thrust::tabulate(keys.begin(), keys.end(), KeyOf<Word>{});
    thrust::sort(keys.begin(), keys.end());
    thrust::tabulate(queries.begin(), queries.end(), Query<Word>{n, false});
    Row row;
    row.rival = "thrust::lower_bound";
    row.operation = "look-up";
    row.key = word_name<Word>;
    row.value = "none";
    row.n = n;
    row.batch = row.count = BATCH;
    row.hit_rate = 1;
    row.unit = "queries";
    row.bytes_per_pair = sizeof(Word);
    for (const char* order : {"random", "sorted"}) {
        if (order[0] == 's') thrust::sort(queries.begin(), queries.end());
        CHECK(cudaMemset(raw(found), 0xff, BATCH * sizeof(Word)));
        row.order = order;
        const Times times = measure([&] {
            thrust::lower_bound(thrust::cuda::par_nosync, keys.begin(), keys.end(), queries.begin(), queries.end(),
                                found.begin());
        });
        // The keys are distinct and every query is among them: its position is the only one with that key.
        const Word *key = raw(keys), *asked = raw(queries), *answers = raw(found);
        const bool right =
            none(BATCH, [=] __device__(u64 i) { return answers[i] >= n || key[answers[i]] != asked[i]; });
        report.row(row, times, right);
    }
}

void sort(Report& report, u64 n) {
    thrust::device_vector<u64> keys(n), values(n), out_keys(n), out_values(n);
    make_pairs(keys, values, 0);
    const Times times = measure_cub([&](void* scratch, std::size_t& bytes) {
        return cub::DeviceRadixSort::SortPairs(scratch, bytes, raw(keys), raw(out_keys), raw(values),
                                               raw(out_values), n);
    });
    const bool right = in_order(out_keys, out_values) && checksum(out_keys) == checksum(keys);
    report.row({"CUB DeviceRadixSort", "", "sort", "u64", "u64", n, n, 0, "random", "pairs sorted", n, 16}, times,
               right);
}

/// Merges n sorted pairs with m others.
void merge(Report& report, u64 n, u64 m) {
    thrust::device_vector<u64> a(n), a_values(n), b(m), b_values(m), out(n + m), out_values(n + m);
    make_pairs(a, a_values, 0);
    make_pairs(b, b_values, n);
    const u64 expected = checksum(a) + checksum(b);
    thrust::sort_by_key(a.begin(), a.end(), a_values.begin());
    thrust::sort_by_key(b.begin(), b.end(), b_values.begin());
    const Times times = measure_cub([&](void* scratch, std::size_t& bytes) {
        return cub::DeviceMerge::MergePairs(scratch, bytes, raw(a), raw(a_values), (long long)n, raw(b),
                                            raw(b_values), (long long)m, raw(out), raw(out_values));
    });
    const bool right = in_order(out, out_values) && checksum(out) == expected;
    report.row({"CUB DeviceMerge", "", "merge", "u64", "u64", n, m, 0, "sorted", "pairs written", n + m, 16}, times,
               right);
}

int main() {
    const std::string cub = std::to_string(CUB_MAJOR_VERSION) + "." + std::to_string(CUB_MINOR_VERSION) + "." +
                            std::to_string(CUB_SUBMINOR_VERSION);
    Report report(("CUB " + cub).c_str());
    for (int bits : {24, 26, 28}) lower_bounds<u64>(report, u64{1} << bits);
    for (int bits : {24, 26}) lower_bounds<u32>(report, u64{1} << bits);
    sort(report, BATCH);
    sort(report, SMALL_BATCH);
    merge(report, BATCH, SMALL_BATCH);
    return report.exit_code();
}
