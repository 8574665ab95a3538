//! The fuzz targets on any toolchain: the corpus, and a fixed number of mutations of it. The long run is
//! libFuzzer's, in `fuzz/`.

use std::fs;
use std::path::{Path, PathBuf};

use neap_tests::{TARGETS, Target, target_dir};

/// Mutations of each target; `NEAP_FUZZ_RUNS` sets another number.
const RUNS: u64 = 3000;
/// Longest input in bytes.
const LONGEST: usize = 16 << 10;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus")
}

/// The files of a target's folder, by name.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let dir = corpus().join(name);
    let entries = fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", dir.display());
    let read = |file| fs::read(file).expect("a file of the corpus");
    files.into_iter().map(read).collect()
}

/// xorshift64*: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        start..start + self.below((length - start).min(64) + 1)
    }

    /// Changes some bytes in the ways that readers stumble over.
    fn mutate(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.below(4) {
            let range = self.range(bytes.len());
            let byte = [0, 1, 0x7f, 0x80, 0xff, self.next() as u8][self.below(6)];
            match self.below(7) {
                0 => bytes.truncate(range.start),
                1 => drop(bytes.drain(range)),
                2 => bytes.insert(range.start, byte),
                3 => {
                    let part = bytes[range.clone()].to_vec();
                    drop(bytes.splice(range.start..range.start, part));
                }
                4 => {
                    let part = self.range(other.len());
                    drop(bytes.splice(range, other[part].iter().copied()));
                }
                5 => bytes[range].fill(byte),
                _ => {
                    if let Some(place) = bytes.get_mut(range.start) {
                        *place ^= 1 << self.below(8);
                    }
                }
            }
        }
        bytes.truncate(LONGEST);
    }
}

/// Keeps the input that a target fails on.
struct Input<'a>(&'a str, &'a [u8]);

impl Drop for Input<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = target_dir().join(format!("fuzz-{}", self.0));
            let kept = fs::write(&path, self.1);
            eprintln!("{} fails on {} ({kept:?})", self.0, path.display());
        }
    }
}

fn run((name, target): Target) {
    let seeds = seeds(name);
    for seed in &seeds {
        let _kept = Input(name, seed);
        target(seed);
    }
    let runs = std::env::var("NEAP_FUZZ_RUNS").ok();
    let runs = runs.and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    let mut random = Random(20_261_121);
    for _ in 0..runs {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        let other = random.below(seeds.len());
        random.mutate(&mut bytes, &seeds[other]);
        let _kept = Input(name, &bytes);
        target(&bytes);
    }
}

#[test]
fn no_target_panics_on_its_corpus_or_on_mutations_of_it() {
    std::thread::scope(|scope| {
        for target in TARGETS {
            scope.spawn(move || run(target));
        }
    });
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let mut dirs: Vec<String> = fs::read_dir(corpus())
        .expect("the corpus")
        .map(|entry| {
            entry
                .expect("a folder")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let mut names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    dirs.sort();
    names.sort_unstable();
    assert_eq!(dirs, names);
    let manifest = corpus().join("../Cargo.toml");
    let manifest = fs::read_to_string(manifest).expect("the manifest of the fuzz crate");
    for name in names {
        let line = format!("name = \"{name}\"");
        assert!(manifest.contains(&line), "fuzz/Cargo.toml: no {line}");
    }
}
