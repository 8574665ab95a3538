//! Sampling and trying, without an engine.

use std::collections::HashSet;

use neap_store::{Codec, CompressorKind, Config, Store, VecArena};
use neap_sys::{Pidfd, Process};
use neap_units::Pages;

use super::*;

/// As pages of the same program are: much in common, some words of their own.
fn page(n: u64) -> [u8; PAGE_SIZE] {
    let mut words = [0u64; PAGE_SIZE / 8];
    for (at, word) in words.iter_mut().enumerate() {
        let common = (at as u64 % 64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        *word = if at % 16 == 3 {
            n * 512 + at as u64
        } else {
            common
        };
    }
    let mut page = [0; PAGE_SIZE];
    for (bytes, word) in page.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    page
}

/// One that has nothing in common with another.
fn noise(n: u64) -> [u8; PAGE_SIZE] {
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::array::from_fn(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state & 15) as u8
    })
}

/// This test's program.
fn program() -> Program {
    let own = std::process::id().cast_signed();
    let pidfd = Pidfd::open(own).expect("our own");
    let process = Process::open(own, &pidfd).expect("our own");
    process.program().expect("our own")
}

struct Scene {
    samples: Samples,
    store: Store,
    codec: Codec,
    program: Program,
}

impl Scene {
    fn new() -> Self {
        let config = Config {
            pool_max: Pages(100),
            compressor: CompressorKind::Zstd(-1),
            ..Config::default()
        };
        let arena = Box::new(VecArena::new(64 * PAGE_SIZE));
        let store = Store::new(
            config,
            arena,
            Box::new(neap_store::NoFile),
            neap_store::HashKey::new(&[7; neap_store::HashKey::BYTES]),
        );
        let codec = store.codec();
        Self {
            samples: Samples::default(),
            store,
            codec,
            program: program(),
        }
    }

    /// A process stores so many pages. What it is to do with the dictionary that it tried, if it is told.
    fn stores(
        &mut self,
        cookie: u64,
        count: u64,
        page: fn(u64) -> [u8; PAGE_SIZE],
    ) -> Option<Verdict> {
        let mut told = None;
        for n in 0..count {
            let page = page(cookie * 100_000 + n);
            if let Some(dictionary) = self.samples.note(cookie, Some(self.program), &page) {
                let bytes = self.store.compare(&dictionary, &page, &mut self.codec);
                told = self.samples.judge(cookie, bytes).or(told);
            }
        }
        told
    }

    /// Reclaim has come by. Who uses a dictionary without a trial; `None`: none was made.
    fn makes(&mut self) -> Option<Option<u64>> {
        let whole = self.samples.take_whole()?;
        let trained = self.store.train(&whole.pages).ok();
        let user = self.samples.settle(&whole, trained);
        Some(user.map(|(cookie, _)| cookie))
    }
}

const fn enough() -> u64 {
    TUNING.dictionaries.stored_before().0
}

#[test]
fn many_small_processes_of_a_program_have_one_dictionary() {
    let mut scene = Scene::new();
    for cookie in 0..64 {
        assert_eq!(
            scene.stores(cookie, enough() / 64, page),
            None,
            "there is none"
        );
    }
    assert_eq!(scene.makes(), Some(None), "nobody's alone");
    assert_eq!(scene.stores(5, 7, page), None);
    assert_eq!(
        scene.stores(5, 1, page),
        Some(Verdict::Begin),
        "it was tried on 8 pages"
    );
    assert_eq!(scene.stores(5, 1000, page), None, "it suits");
    assert_eq!(scene.store.stats().dictionaries, 1);
}

#[test]
fn what_comes_from_one_process_is_its_own_at_once() {
    let mut scene = Scene::new();
    scene.stores(1, enough(), page);
    assert_eq!(scene.makes(), Some(Some(1)));
    assert_eq!(scene.stores(1, 1000, page), None, "it has it");
    assert_eq!(scene.stores(2, 1000, page), Some(Verdict::Begin));
}

#[test]
fn a_large_process_is_asked_for_pages_of_its_own() {
    let mut scene = Scene::new();
    scene.stores(1, enough(), page);
    assert_eq!(scene.makes(), Some(Some(1)));
    assert_eq!(scene.stores(2, enough(), page), Some(Verdict::Begin));
    assert_eq!(scene.makes(), None);
    scene.stores(2, enough(), page);
    assert_eq!(scene.makes(), Some(Some(2)));
    assert_eq!(scene.stores(2, 2 * enough(), page), None, "once");
    assert_eq!(scene.makes(), None);
}

#[test]
fn a_dictionary_that_does_not_suit_any_more_is_given_up() {
    let mut scene = Scene::new();
    scene.stores(1, enough(), page);
    assert_eq!(scene.makes(), Some(Some(1)));
    assert_eq!(scene.stores(2, 100, page), Some(Verdict::Begin));
    assert_eq!(scene.stores(2, enough() / 4, noise), Some(Verdict::End));
    assert_eq!(
        scene.stores(3, 100, page),
        Some(Verdict::Begin),
        "others have it"
    );
}

#[test]
fn a_process_unlike_its_program_has_a_dictionary_of_its_own_or_none() {
    let mut scene = Scene::new();
    // Noise gains nothing: that says nothing of others of its program.
    scene.stores(1, enough(), noise);
    assert_eq!(scene.makes(), Some(None));
    scene.stores(2, enough(), page);
    assert_eq!(scene.makes(), Some(Some(2)));
    assert_eq!(
        scene.stores(3, enough() / 2, noise),
        None,
        "it does not suit"
    );
    scene.stores(3, enough(), noise);
    assert_eq!(scene.makes(), Some(None));
    scene.stores(3, 2 * enough(), noise);
    assert_eq!(scene.makes(), None, "it was asked");
}

#[test]
fn processes_that_have_nothing_in_common_with_each_other_are_asked_each_for_itself() {
    let mut scene = Scene::new();
    for cookie in 0..8 {
        scene.stores(cookie, enough() / 8, noise);
    }
    assert_eq!(scene.makes(), Some(None));
    scene.stores(3, enough(), page);
    assert_eq!(scene.makes(), Some(Some(3)));
}

#[test]
fn a_kind_is_not_sampled_while_a_dictionary_is_made_of_it() {
    let mut scene = Scene::new();
    scene.stores(1, enough(), page);
    let whole = scene.samples.take_whole().expect("enough");
    scene.stores(1, enough(), page);
    assert!(scene.samples.take_whole().is_none());
    let trained = scene.store.train(&whole.pages).ok();
    assert!(scene.samples.settle(&whole, trained).is_some());
}

#[test]
fn a_dictionary_goes_with_the_last_process_of_its_program() {
    let mut scene = Scene::new();
    scene.stores(1, enough(), page);
    assert_eq!(scene.makes(), Some(Some(1)));
    scene.stores(3, 100, page);
    let gone = scene.samples.forget_gone(&HashSet::from([2, 3]));
    assert!(gone.is_empty(), "3 is of the same program");
    let gone = scene.samples.forget_gone(&HashSet::from([2]));
    assert_eq!(gone.len(), 1);
    for dictionary in gone {
        scene.store.withdraw(dictionary);
    }
    assert_eq!(scene.store.stats().dictionaries, 0);
    scene.store.check();
}
