"""Plain arrays, without a word of programs or ranks: types, hashing, segments, shards."""
