//! Carries the decisions of the policy core out on live processes.
