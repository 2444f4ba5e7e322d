//! engine-bench
