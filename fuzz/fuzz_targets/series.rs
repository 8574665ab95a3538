//! See `neap_tests::TARGETS`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| neap_fuzz::run("series", bytes));
