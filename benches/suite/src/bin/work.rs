//! `neap-work KIND MIB OPS`: one workload, and a checksum of all it read at the end.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use neap_suite::work;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match work::run(&words) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("neap-work: {fault}");
            ExitCode::FAILURE
        }
    }
}
