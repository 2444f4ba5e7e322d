//! engine-api
