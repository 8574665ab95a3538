//! The end of a bench: what is warned of, and what is printed and written.

use neap_tuning::TUNING;
use neap_units::Bytes;

use super::figures::{Raw, Verdict, who};
use super::interrupt::Stop;
use super::plan::{Accounting, Entrant};
use super::report::Report;
use super::{Bench, is_stdout, plan, stream, table};
use crate::choice::Contender;
use crate::exit;
use crate::failure::Failure;
use crate::talk;

impl Bench<'_> {
    /// Prints the report and writes the file; the status.
    pub(super) fn tell(mut self, entrants: &[plan::Entrant]) -> Result<u8, Stop> {
        self.look_for_excess(entrants);
        self.look_for_more_than_equal(entrants);
        self.look_for_strangers();
        let compared = |e: &plan::Entrant| e.contender != Contender::Plain && e.given_up.is_none();
        let alone = !entrants.iter().any(compared) && !self.wanted().is_empty();
        let plain_late = entrants
            .iter()
            .any(|e| e.contender == Contender::Plain && e.given_up.is_some());
        if alone && !plain_late {
            self.warn("nothing was compared: only plain could be measured".to_owned());
        }
        let words = self.args.command.iter();
        let command: Vec<String> = words.map(|w| w.to_string_lossy().into_owned()).collect();
        let report = Report {
            command: &command,
            size: self.size,
            runs: self.args.runs,
            patience: self.args.patience,
            date: &self.date,
            machine: &self.site,
            entrants,
            absent: &self.absent,
            raw: &self.raw,
            verdict: Verdict::of(&self.raw, entrants),
            warnings: self.warnings,
        };
        // First what can be read again: a terminal or a pipe may be gone by now. Each, whatever became of the other.
        let json = report.json();
        let written = self.json.map_or(Ok(()), |file| file.write(&json));
        let text = match self.args.json.as_deref().is_some_and(is_stdout) {
            true => json,
            false => table::table(&report),
        };
        match (stream::print(&text).map_err(Failure::Stdout), written) {
            (Err(printed), Err(written)) => {
                talk::say(&written.lines());
                return Err(printed.into());
            }
            (printed, written) => printed.and(written)?,
        }
        let good = report.is_unanimous() && !alone && !plain_late;
        Ok(if good { 0 } else { exit::DIFFERENT })
    }

    /// A limit that was not kept makes a comparison worthless, and neap says itself when it gives up.
    fn look_for_excess(&mut self, entrants: &[Entrant]) {
        let mut lines = Vec::new();
        for run in &self.raw {
            let limit = run.limit_bytes.unwrap_or(u64::MAX);
            let allowed = TUNING.limit.allowed(Bytes(limit)).0;
            if run.contender == Contender::Neap && run.held_bytes() > allowed {
                let peak = Bytes(run.held_bytes());
                let (who, limit) = (who(run, entrants), Bytes(limit));
                lines.push(format!("{who} took {peak}, its limit was {limit}"));
            }
            let said = run.neap["warnings"].as_array().into_iter().flatten();
            lines.extend(said.filter_map(|line| Some(format!("neap said: {}", line.as_str()?))));
        }
        for line in lines {
            self.warn(line);
        }
    }

    /// The tables stand under what is to be equal; a run that took more is not.
    fn look_for_more_than_equal(&mut self, entrants: &[plan::Entrant]) {
        let lines = excess(self.size, entrants, &self.raw);
        lines.into_iter().for_each(|line| self.warn(line));
    }

    /// Where the kernel counts pages for the whole machine, the counts hold other programs' pages too.
    fn look_for_strangers(&mut self) {
        let by_machine = self.raw.iter().any(|run| {
            run.counted == "machine" && !matches!(run.contender, Contender::Plain | Contender::Neap)
        });
        if by_machine {
            self.warn(
                "pages in and out, what swap wrote to disk and zswap's pool are the whole machine's in the kernel's \
                 runs: version 1 of cgroups does not count them for a group"
                    .to_owned(),
            );
        }
        if !self.site.swaps().is_empty() {
            let areas = self.site.swaps().join(", ");
            self.warn(format!("other swap areas are in use: {areas}"));
        }
    }
}

/// Who took more in a table than its size, a line for each: the worst of its counted runs.
fn excess(size: Bytes, entrants: &[Entrant], runs: &[Raw]) -> Vec<String> {
    type Memory = fn(&Raw) -> u64;
    let accountings: [(Accounting, &str, Memory); 2] = [
        (Accounting::Resident, "resident", |run| {
            run.peak_resident_bytes
        }),
        (Accounting::Pooled, "with its pool", |run| {
            run.peak_memory_bytes
        }),
    ];
    let mut lines = Vec::new();
    for (accounting, what, memory) in accountings {
        let standing = |entrant: &&Entrant| {
            entrant.contender != Contender::Plain && entrant.label(accounting).is_some()
        };
        for entrant in entrants.iter().filter(standing) {
            let own = runs.iter().filter(|run| run.is_of(entrant));
            let Some(worst) = own.max_by_key(|run| memory(run)) else {
                continue;
            };
            let most = memory(worst);
            if most > size.0 + TUNING.bench.excess.of(size.0) {
                let percent = (most - size.0) * 100 / size.0.max(1);
                lines.push(format!(
                    "{} {} took {} {what} in turn {}, {percent} % more than {size}",
                    accounting.letter(),
                    entrant.contender,
                    Bytes(most),
                    worst.turn
                ));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::raw;
    use super::super::plan::{First, entrants};
    use super::*;

    #[test]
    fn whoever_took_more_than_its_table_is_of_is_named() {
        let size = Bytes::mib(100);
        let first = First {
            contender: Contender::Zswap,
            pool: Bytes::mib(20),
            charged: false,
            late: None,
            left_running: false,
        };
        let (entrants, _) = entrants(size, &[first]);
        let run = |limit: u64, turn, resident: u64, memory: u64| Raw {
            limit_bytes: Some(limit << 20),
            peak_resident_bytes: resident << 20,
            peak_memory_bytes: memory << 20,
            ..raw(Contender::Zswap, turn, 1.0)
        };
        let runs = [
            run(100, 0, 150, 150),
            run(100, 1, 105, 130),
            run(80, 1, 80, 105),
        ];
        assert_eq!(excess(size, &entrants, &runs), Vec::<String>::new());
        let runs = [
            run(100, 1, 106, 130),
            run(80, 1, 80, 108),
            run(80, 2, 80, 110),
        ];
        let want = [
            "(a) zswap took 106MiB resident in turn 1, 6 % more than 100MiB",
            "(b) zswap took 110MiB with its pool in turn 2, 10 % more than 100MiB",
        ];
        assert_eq!(excess(size, &entrants, &runs), want);
    }
}
