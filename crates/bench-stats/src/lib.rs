//! bench-stats
