// The pairs and queries of the index rivals. Key `i` is a one-to-one function of `i` and its value a function
// of the key: each answer is checked by its query alone.
#pragma once

#include "measure.cuh"

#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/logical.h>
#include <thrust/tabulate.h>

template <class Word>
constexpr const char* word_name = sizeof(Word) == 8 ? "u64" : "u32";

/// No value is this: it stands for a key that is not there.
template <class Word>
constexpr Word missing = Word(~Word{0});

/// The keys of a set of n: those of 0 to n - 1. The others are not in the set.
template <class Word>
struct KeyOf {
    __host__ __device__ Word operator()(u64 i) const { return mix(Word(i)); }
};

template <class Word>
__host__ __device__ Word value_of(Word key) {
    return mix(Word(key ^ Word(0x5bd1e995))) >> 1;
}

/// Value `i` of the keys in memory.
template <class Word>
struct ValueAt {
    const Word* keys;
    __host__ __device__ Word operator()(u64 i) const { return value_of(keys[i]); }
};

/// Random queries, drawn with replacement from n keys, a power of two; or with `misses`, for every second one
/// (by a coin), a key that is not in the set.
template <class Word>
struct Query {
    u64 n;
    bool misses;

    __host__ __device__ bool hits(u64 i) const { return !misses || mix(~i) >> 63; }
    __host__ __device__ Word operator()(u64 i) const {
        return KeyOf<Word>{}((mix(~i) & (n - 1)) + (hits(i) ? 0 : n));
    }
};

template <class T>
T* raw(thrust::device_vector<T>& vector) {
    return thrust::raw_pointer_cast(vector.data());
}

/// Whether `wrong(i)` holds for no `i` below `count`.
template <class Wrong>
bool none(u64 count, Wrong wrong) {
    return thrust::none_of(thrust::device, thrust::counting_iterator<u64>(0), thrust::counting_iterator<u64>(count),
                           wrong);
}

/// Whether the card has so much memory free.
inline bool fits(u64 bytes) {
    std::size_t free = 0, total = 0;
    CHECK(cudaMemGetInfo(&free, &total));
    return bytes <= free;
}
