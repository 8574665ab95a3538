//! The policy core of neap: events in, decisions out; no clock, thread, system call or randomness.
