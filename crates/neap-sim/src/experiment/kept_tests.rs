//! Tests of `kept.rs`.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::json;

use super::kept::*;
use super::{Measure, Options, Outcome, Run, Series, find, run};

/// A file in memory that takes so many bytes.
#[derive(Clone)]
struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Memory {
    fn of(text: &str, room: usize) -> Memory {
        let bytes = Arc::new(Mutex::new(text.as_bytes().to_vec()));
        Memory { bytes, room }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Memory {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        if bytes.len() + data.len() > self.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open(memory: &Memory) -> Result<Kept, KeptFault> {
    Kept::new(&memory.text(), "this", Box::new(memory.clone()))
}

fn options(kept: Option<Kept>) -> Options {
    Options {
        seeds: 3,
        scale: Some(0.05),
        sets: vec!["writes=2".to_owned()],
        threads: 2,
        kept: kept.map(Arc::new),
        ..Options::default()
    }
}

fn outcome(options: &Options) -> Outcome {
    run(find("memcg-lru-6.12").unwrap(), options, &|_, _| {}).unwrap()
}

#[test]
fn a_command_goes_on_where_it_was_interrupted_with_the_same_result() {
    let whole = outcome(&options(None));
    let memory = Memory::of("", usize::MAX);
    outcome(&options(Some(open(&memory).unwrap())));
    let full = memory.text();
    assert_eq!(full.lines().count(), 1 + 3 * 2);
    // Cut anywhere behind the first line: also within a number.
    let head = full.find('\n').unwrap() + 1;
    for cut in (head..full.len()).step_by(full.len() / 40) {
        let memory = Memory::of(&full[..cut], usize::MAX);
        let kept = open(&memory).unwrap();
        // One that lacks only its end of line is whole.
        let whole_lines = full[head..=cut].matches('\n').count();
        assert_eq!(kept.len(), whole_lines, "cut at {cut}");
        let again = outcome(&options(Some(kept)));
        assert_eq!(again.rows, whole.rows, "cut at {cut}");
        // Runs added after a line that was cut off are found again.
        let third = Kept::new(&memory.text(), "this", Box::new(memory.clone()));
        match third {
            Ok(kept) => assert_eq!(kept.len(), 6),
            Err(fault) => panic!("cut at {cut}: {fault}"),
        }
    }
}

#[test]
fn what_is_kept_is_not_run_again() {
    let memory = Memory::of("", usize::MAX);
    outcome(&options(Some(open(&memory).unwrap())));
    let changed = memory.text().replace(
        "\"eagain\",\"writes\",\"0.0\"",
        "\"eagain\",\"writes\",\"7.0\"",
    );
    let memory = Memory::of(&changed, usize::MAX);
    let again = outcome(&options(Some(open(&memory).unwrap())));
    assert_eq!(again.row("eagain", "classic").unwrap().simulated, 7.0);
    assert_eq!(memory.text(), changed, "and nothing is kept twice");
    // Other settings are other runs.
    let mut other = options(Some(open(&memory).unwrap()));
    other.sets = vec!["writes=3".to_owned()];
    assert_eq!(
        outcome(&other).row("eagain", "classic").unwrap().simulated,
        0.0
    );
}

#[test]
fn what_cannot_be_gone_on_with_is_refused() {
    let fault = |text: &str| open(&Memory::of(text, usize::MAX)).unwrap_err().to_string();
    assert_eq!(fault("some text\n"), "holds no runs of experiments");
    assert_eq!(
        fault("{\"schema\":\"neap.experiment/1\"}\n"),
        "holds no runs of experiments"
    );
    let head = |build: &str| format!("{}\n", json!({"schema": "neap.runs/1", "build": build}));
    assert_eq!(fault(&head("that")), "holds runs of another build of neap");
    assert!(matches!(open(&Memory::of("", 3)), Err(KeptFault::Write(_))));
}

#[test]
fn a_full_disk_ends_the_command() {
    let memory = Memory::of("", 200);
    let options = options(Some(open(&memory).unwrap()));
    let fault = run(find("memcg-lru-6.12").unwrap(), &options, &|_, _| {}).unwrap_err();
    assert!(
        fault.to_string().starts_with("a run could not be kept: "),
        "{fault}"
    );
}

proptest! {
    #[test]
    fn every_number_comes_back_to_the_last_bit(values in prop::collection::vec(any::<f64>(), 1..9)) {
        let run = Run {
            measures: values
                .iter()
                .map(|&value| Measure { metric: "m", unit: "u", value })
                .collect(),
            series: vec![Series {
                metric: "m",
                unit: "u",
                config: "c",
                points: values.iter().map(|&value| (value, -value)).collect(),
            }],
        };
        let line = write("a b 1 0.5", &run).to_string();
        let (key, again) = read(&line, &mut Names::default()).unwrap();
        prop_assert_eq!(key, "a b 1 0.5");
        let bits = |run: &Run| -> Vec<u64> {
            let measures = run.measures.iter().map(|m| m.value.to_bits());
            let points = run.series[0].points.iter();
            measures.chain(points.flat_map(|&(at, value)| [at.to_bits(), value.to_bits()])).collect()
        };
        let of = |values: Vec<u64>| -> Vec<u64> {
            let same = |bits: u64| if f64::from_bits(bits).is_nan() { f64::NAN.to_bits() } else { bits };
            values.into_iter().map(same).collect()
        };
        prop_assert_eq!(of(bits(&again)), of(bits(&run)));
    }
}
