//! What is sampled, for whom, and who tries it.

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
        }
    }

    /// A process stores so many pages. Whether it uses a dictionary that it has tried.
    fn stores(&mut self, cookie: u64, count: u64, page: fn(u64) -> [u8; PAGE_SIZE]) -> bool {
        let mut uses = false;
        for n in 0..count {
            let page = page(cookie * 100_000 + n);
            if let Some(dictionary) = self.samples.note(cookie, &page) {
                let owner = neap_units::SpaceId(0);
                let bytes = self
                    .store
                    .compare(owner, &dictionary, &page, &mut self.codec);
                uses |= self.samples.judge(cookie, bytes);
            }
        }
        uses
    }

    /// Reclaim has come by. Who uses a dictionary without a trial; `None`: none was made.
    fn makes(&mut self) -> Option<Option<u64>> {
        let whole = self.samples.take_whole()?;
        let trained = self.store.train(&whole.pages).ok();
        let user = self.samples.settle(&whole, trained);
        Some(user.map(|(cookie, _)| cookie))
    }
}

#[test]
fn many_small_processes_of_a_program_have_one_dictionary() {
    let mut scene = Scene::new();
    let needed = TUNING.dictionaries.stored_before().0;
    for cookie in 0..64 {
        scene.samples.meet(cookie, Some(program()));
        assert!(
            !scene.stores(cookie, needed / 64, page),
            "there is none yet"
        );
    }
    assert_eq!(scene.makes(), Some(None), "nobody's alone");
    assert!(
        scene.stores(5, 64, page),
        "it is tried on 8 pages, and used"
    );
    assert!(!scene.stores(5, 64, page), "once");
    assert_eq!(scene.store.stats().dictionaries, 1);
}

#[test]
fn what_comes_from_one_process_is_its_own_at_once() {
    let mut scene = Scene::new();
    scene.samples.meet(1, Some(program()));
    scene.samples.meet(2, Some(program()));
    scene.stores(1, TUNING.dictionaries.stored_before().0, page);
    assert_eq!(scene.makes(), Some(Some(1)));
    assert!(!scene.stores(1, 1000, page), "it has it");
    assert!(
        scene.stores(2, 1000, page),
        "and so has one of the same program"
    );
}

#[test]
fn a_process_unlike_its_program_has_a_dictionary_of_its_own_or_none() {
    let mut scene = Scene::new();
    let needed = TUNING.dictionaries.stored_before().0;
    (1..4).for_each(|cookie| scene.samples.meet(cookie, Some(program())));
    // Noise gains nothing: that says nothing of others of its program.
    scene.stores(1, needed, noise);
    assert_eq!(scene.makes(), Some(None));
    scene.stores(2, needed, page);
    assert_eq!(scene.makes(), Some(Some(2)));
    assert!(!scene.stores(3, needed / 2, noise), "it does not suit");
    scene.stores(3, needed, noise);
    assert_eq!(scene.makes(), Some(None));
    assert!(!scene.stores(3, needed, noise) && scene.makes().is_none());
}

#[test]
fn a_dictionary_goes_with_the_last_process_of_its_program() {
    let mut scene = Scene::new();
    scene.samples.meet(1, Some(program()));
    scene.samples.meet(2, None);
    scene.stores(1, TUNING.dictionaries.stored_before().0, page);
    assert_eq!(scene.makes(), Some(Some(1)));
    scene.samples.meet(3, Some(program()));
    let gone = scene.samples.forget_gone(&HashSet::from([2, 3]));
    assert!(gone.is_empty(), "3 is of the same program");
    let gone = scene.samples.forget_gone(&HashSet::from([2]));
    assert_eq!(gone.len(), 1);
    gone.into_iter()
        .for_each(|dictionary| scene.store.withdraw(dictionary));
    assert_eq!(scene.store.stats().dictionaries, 0);
    scene.store.check();
}
