//! Every system call neap makes, with its errno decoded once.
