//! `neap report`: one page with a run over time, which opens from a file and fetches nothing.

mod chart;
mod charts;
mod markup;
mod page;
mod scale;
mod told;

use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use super::failure::Failure;
use super::flags::ReportArgs;
use super::{done, expose, print};
use crate::bench::date::rfc3339;
use told::Told;

/// `neap report`.
pub fn report(args: &ReportArgs) -> ExitCode {
    let report = || -> Result<(), Failure> {
        let told = match &args.stats {
            Some(path) => Told::by_file(path)?,
            None => Told::by_job(args.job.as_deref())?,
        };
        #[expect(clippy::disallowed_methods, reason = "a person reads when it was")]
        let date = rfc3339(SystemTime::now());
        let text = page::page(&told, &date);
        match args.file == Path::new("-") {
            true => print(&text),
            false => expose::to_file(&args.file, &text),
        }
    };
    done(report())
}
