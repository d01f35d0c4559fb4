// cuCollections' static_map, half full, on the work that LaneTree is measured at.
//
//   nvcc -O3 -std=c++17 -arch=native --extended-lambda --expt-relaxed-constexpr -I cuCollections/include
//        cuco_static_map.cu -o cuco_static_map && ./cuco_static_map
//
// Kernels alone, by device events: the median of 5 runs after 2 more. Every answer is checked. Writes a table
// to stderr and JSON lines to stdout. README.md says what is in a row.

#include <cuda/std/functional>
#include <cuda/version>

#if CCCL_MAJOR_VERSION >= 3
// cuCollections of 2024 uses thrust::identity, which CCCL 3 no longer has.
namespace thrust {
template <class T = void>
struct identity : cuda::std::identity {};
} // namespace thrust
#endif

#include "pairs.cuh"

#include <cuco/static_map.cuh>
#include <cub/version.cuh>

const u64 BATCH = u64{1} << 26;

template <class Word>
struct PairOf {
    __host__ __device__ cuco::pair<Word, Word> operator()(u64 i) const {
        const Word key = KeyOf<Word>{}(i);
        return {key, value_of(key)};
    }
};

/// A map that is probed by `GROUP` threads per key, each of which reads a window of `WINDOW` slots.
/// cuCollections' defaults are 4 and 1.
template <class Word, int GROUP, int WINDOW>
using Map = cuco::static_map<Word, Word, cuco::extent<std::size_t>, cuda::thread_scope_device,
                             cuda::std::equal_to<Word>,
                             cuco::linear_probing<GROUP, cuco::default_hash_function<Word>>,
                             cuco::cuda_allocator<cuco::pair<Word, Word>>, cuco::storage<WINDOW>>;

template <class Word, int GROUP, int WINDOW>
void map(Report& report, u64 n) {
    using Pair = cuco::pair<Word, Word>;
    // Slots, pairs, queries and answers, and some room.
    if (!fits(2 * n * sizeof(Pair) + n * sizeof(Pair) + 2 * BATCH * sizeof(Word) + (u64{1} << 30))) {
        std::fprintf(stderr, "n = %llu: left out, too little memory\n", (unsigned long long)n);
        return;
    }
    Map<Word, GROUP, WINDOW> map{cuco::extent<std::size_t>{2 * n}, cuco::empty_key<Word>{missing<Word>},
                                 cuco::empty_value<Word>{missing<Word>}};
    Row row;
    row.rival = "cuCollections static_map";
    row.setting = "group " + std::to_string(GROUP) + ", window " + std::to_string(WINDOW);
    row.key = row.value = word_name<Word>;
    row.n = n;
    row.order = "random";
    row.bytes_per_pair = double(map.capacity()) * sizeof(Pair) / n;
    {
        thrust::device_vector<Pair> pairs(n);
        thrust::tabulate(pairs.begin(), pairs.end(), PairOf<Word>{});
        row.operation = "insert";
        row.batch = row.count = n;
        row.hit_rate = 0;
        row.unit = "pairs inserted";
        const Times times = measure_prepared([&] { map.clear_async(); },
                                             [&] { map.insert_async(pairs.begin(), pairs.end()); });
        // Each key is found, and there are no others.
        thrust::device_vector<Word> keys(n), found(n);
        thrust::tabulate(keys.begin(), keys.end(), KeyOf<Word>{});
        map.find(keys.begin(), keys.end(), found.begin());
        const Word *asked = raw(keys), *answers = raw(found);
        const bool right = none(n, [=] __device__(u64 i) { return answers[i] != value_of(asked[i]); });
        report.row(row, times, right && map.size() == n);
    }
    thrust::device_vector<Word> queries(BATCH), found(BATCH);
    row.operation = "look-up";
    row.batch = row.count = BATCH;
    row.unit = "queries";
    for (bool misses : {false, true}) {
        const Query<Word> query{n, misses};
        thrust::tabulate(queries.begin(), queries.end(), query);
        CHECK(cudaMemset(raw(found), 0, BATCH * sizeof(Word)));
        row.hit_rate = misses ? 0.5 : 1.0;
        const Times times = measure([&] { map.find_async(queries.begin(), queries.end(), found.begin()); });
        const Word* answers = raw(found);
        const bool right = none(BATCH, [=] __device__(u64 i) {
            return answers[i] != (query.hits(i) ? value_of(query(i)) : missing<Word>);
        });
        report.row(row, times, right);
    }
}

template <class Word>
void maps(Report& report, u64 n) {
    map<Word, 4, 1>(report, n);
    map<Word, 2, 1>(report, n);
    map<Word, 1, 1>(report, n);
    map<Word, 1, 2>(report, n);
}

int main() {
    const std::string cccl = std::to_string(CUB_MAJOR_VERSION) + "." + std::to_string(CUB_MINOR_VERSION) + "." +
                             std::to_string(CUB_SUBMINOR_VERSION);
    Report report(("CCCL " + cccl).c_str());
    for (int bits : {24, 26, 28}) maps<u64>(report, u64{1} << bits);
    for (int bits : {24, 26}) maps<u32>(report, u64{1} << bits);
    return report.exit_code();
}
