// Positions of a batch's keys in sorted keys, as LaneTree's `lower_bound` answers them: by CUB's searches, and by a
// merge of keys and queries, for batches that are sorted. Beside them the copy of an array, in the same run.
//
//   nvcc -O3 -std=c++17 -arch=native --extended-lambda -I cccl/nvidia/cu13/include/cccl sorted_search.cu -o sorted_search
//
// Kernels alone, by device events: the median of 5 runs after 2 more. Every answer is checked. Writes a table
// to stderr and JSON lines to stdout. README.md says what is in a row, and which CCCL it needs.

#include "pairs.cuh"

#include <cub/device/device_find.cuh>
#include <cub/version.cuh>
#include <cuda/std/functional>
#include <thrust/sort.h>

const u64 BATCH = u64{1} << 26;

// The merge. Keys and queries are thought of as one sorted array, a query before the keys that equal it: so the keys
// before a query are those below it. A tile is TILE elements of that array. `find_tiles` finds how many of the elements
// before each tile are keys, and `merge_tiles` copies a tile's keys and queries to shared memory, where each thread
// merges ITEMS elements and says for each query how many keys came before it.

constexpr int THREADS = 256;
/// Odd, so that threads which read at the same step of their merges use different banks of shared memory.
constexpr int ITEMS = 11;
constexpr int TILE = THREADS * ITEMS;

/// How many of the first `diagonal` elements of the merged array are keys.
template <class Size, class Word>
__device__ Size keys_before(const Word* keys, Size n, const Word* queries, Size m, Size diagonal) {
    Size low = diagonal > m ? diagonal - m : 0, high = diagonal < n ? diagonal : n;
    while (low < high) {
        const Size middle = low + (high - low) / 2;
        if (keys[middle] < queries[diagonal - 1 - middle])
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

__global__ void find_tiles(const u64* keys, u64 n, const u64* queries, u64 m, u64* begins, u64 tiles) {
    const u64 tile = blockIdx.x * u64{THREADS} + threadIdx.x;
    if (tile <= tiles) {
        const u64 diagonal = tile * TILE;
        begins[tile] = keys_before<u64>(keys, n, queries, m, diagonal < n + m ? diagonal : n + m);
    }
}

__global__ void __launch_bounds__(THREADS)
    merge_tiles(const u64* keys, u64 n, const u64* queries, u64 m, const u64* begins, u64* ranks) {
    __shared__ u64 elements[TILE];
    __shared__ std::uint16_t found[TILE];
    const u64 diagonal = blockIdx.x * u64{TILE}, end = diagonal + TILE < n + m ? diagonal + TILE : n + m;
    const u64 first_key = begins[blockIdx.x], first_query = diagonal - first_key;
    const u32 count = u32(end - diagonal), n_keys = u32(begins[blockIdx.x + 1] - first_key), n_queries = count - n_keys;
    for (u32 i = threadIdx.x; i < count; i += THREADS)
        elements[i] = i < n_keys ? __ldcs(keys + first_key + i) : __ldcs(queries + first_query + i - n_keys);
    __syncthreads();

    const u64 *tile_keys = elements, *tile_queries = elements + n_keys;
    const u32 begin = min(threadIdx.x * ITEMS, count);
    u32 key = keys_before<u32>(tile_keys, n_keys, tile_queries, n_queries, begin), query = begin - key;
    for (int item = 0; item < ITEMS; ++item) {
        if (query < n_queries && (key == n_keys || tile_queries[query] <= tile_keys[key]))
            found[query++] = std::uint16_t(key);
        else
            ++key;
    }
    __syncthreads();

    for (u32 i = threadIdx.x; i < n_queries; i += THREADS) __stcs(ranks + first_query + i, first_key + found[i]);
}

/// The merge, called as CUB's functions are.
cudaError_t merge_lower_bound(void* scratch, std::size_t& bytes, const u64* keys, u64 n, const u64* queries, u64 m,
                              u64* ranks) {
    const u64 tiles = (n + m + TILE - 1) / TILE;
    if (!scratch) {
        bytes = (tiles + 1) * sizeof(u64);
        return cudaSuccess;
    }
    u64* begins = static_cast<u64*>(scratch);
    find_tiles<<<unsigned(tiles / THREADS + 1), THREADS>>>(keys, n, queries, m, begins, tiles);
    merge_tiles<<<unsigned(tiles), THREADS>>>(keys, n, queries, m, begins, ranks);
    return cudaGetLastError();
}

/// Reads and writes memory, and nothing else.
void copy(Report& report) {
    thrust::device_vector<u64> from(BATCH), to(BATCH);
    thrust::tabulate(from.begin(), from.end(), KeyOf<u64>{});
    const Times times =
        measure([&] { CHECK(cudaMemcpyAsync(raw(to), raw(from), BATCH * sizeof(u64), cudaMemcpyDeviceToDevice)); });
    const u64* copied = raw(to);
    const bool right = none(BATCH, [=] __device__(u64 i) { return copied[i] != KeyOf<u64>{}(i); });
    report.row({"cudaMemcpyAsync", "", "copy", "u64", "none", BATCH, BATCH, 0, "sorted", "bytes, both ways",
                2 * BATCH * sizeof(u64), sizeof(u64)},
               times, right);
}

/// Sorted keys, queries, and the queries' ranks.
struct Search {
    thrust::device_vector<u64> keys, queries, ranks;
};

/// Whether the key before each rank is below the query, and the key at it is not.
bool are_right(Search& search) {
    const u64 n = search.keys.size(), *keys = raw(search.keys), *queries = raw(search.queries),
              *ranks = raw(search.ranks);
    return none(BATCH, [=] __device__(u64 i) {
        const u64 rank = ranks[i];
        return rank > n || (rank > 0 && keys[rank - 1] >= queries[i]) || (rank < n && keys[rank] < queries[i]);
    });
}

/// CUB's version, a setting of its rows.
std::string cub_version() {
    return "CUB " + std::to_string(CUB_MAJOR_VERSION) + "." + std::to_string(CUB_MINOR_VERSION) + "." +
           std::to_string(CUB_SUBMINOR_VERSION);
}

/// Times `call`, which writes the ranks.
template <class Call>
void lower_bound(Report& report, const char* rival, const std::string& setting, const char* order, Search& search,
                 Call call) {
    CHECK(cudaMemset(raw(search.ranks), 0xff, BATCH * sizeof(u64)));
    const Times times = measure_cub(call);
    const u64 n = search.keys.size();
    report.row({rival, setting, "lower_bound", "u64", "none", n, BATCH, 0.5, order, "queries", BATCH, sizeof(u64)},
               times, are_right(search));
}

/// Half of the queries are keys, as for LaneTree's ranks.
void lower_bounds(Report& report, u64 n) {
    Search search{thrust::device_vector<u64>(n), thrust::device_vector<u64>(BATCH), thrust::device_vector<u64>(BATCH)};
    thrust::tabulate(search.keys.begin(), search.keys.end(), KeyOf<u64>{});
    thrust::sort(search.keys.begin(), search.keys.end());
    thrust::tabulate(search.queries.begin(), search.queries.end(), Query<u64>{n, true});
    const u64 *keys = raw(search.keys), *queries = raw(search.queries);
    u64* const ranks = raw(search.ranks);
    const auto below = cuda::std::less<u64>{};
    // CUB counts in 32 bits if it is given such numbers.
    const u32 n_keys = u32(n), n_queries = u32(BATCH);
    const auto by_searches = [=](void* scratch, std::size_t& bytes) {
        return cub::DeviceFind::LowerBound(scratch, bytes, keys, n_keys, queries, n_queries, ranks, below);
    };
    lower_bound(report, "CUB LowerBound", cub_version(), "random", search, by_searches);
    thrust::sort(search.queries.begin(), search.queries.end());
    lower_bound(report, "CUB LowerBound", cub_version(), "sorted", search, by_searches);
    const auto by_merge = [=](void* scratch, std::size_t& bytes) {
        return cub::DeviceFind::LowerBoundSortedValues(scratch, bytes, keys, n_keys, queries, n_queries, ranks,
                                                       below);
    };
    lower_bound(report, "CUB LowerBoundSortedValues", cub_version(), "sorted", search, by_merge);
    const auto by_our_merge = [=](void* scratch, std::size_t& bytes) {
        return merge_lower_bound(scratch, bytes, keys, n, queries, BATCH, ranks);
    };
    lower_bound(report, "merge of keys and queries", "", "sorted", search, by_our_merge);
}

int main() {
    Report report(cub_version().c_str());
    copy(report);
    for (int bits : {24, 26, 28}) lower_bounds(report, u64{1} << bits);
    return report.exit_code();
}
