"""Words by prefix."""

import lanetree

words = ["care", "car", "dog", "cart", "cat", "do"]
index = lanetree.StringIndex(words, device="cpu")
found = index.prefix(["car", "do"])
for i, prefix in enumerate(["car", "do"]):
    print(prefix, found.keys[found.offsets[i] : found.offsets[i + 1]])
