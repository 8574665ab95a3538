//! Where a page lives when it is not resident: compressors, the pool, the shrinker and the swap file.
