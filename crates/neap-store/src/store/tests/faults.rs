//! Injected faults: no byte is lost or wrong without an error that says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use neap_units::{EntryId, PAGE_SIZE};

use super::fixture::*;
use crate::swapfile::{Direction, EXTENT, Fault, FaultyFile};
use crate::{LoadError, Source};

const SWAP: u64 = 64 << 20;

/// Which fault the file has at the moment.
#[derive(Clone, Default)]
struct Switch(Arc<AtomicU8>);

const NONE: u8 = 0;
const WRITE_FULL: u8 = 1;
const WRITE_IO: u8 = 2;
const WRITE_LOST: u8 = 3;
const WRITE_CORRUPT: u8 = 4;
const READ_IO: u8 = 5;
const READ_CORRUPT: u8 = 6;

impl Switch {
    fn set(&self, fault: u8) {
        self.0.store(fault, Ordering::Relaxed);
    }

    fn file(&self) -> FaultyFile {
        let state = Arc::clone(&self.0);
        FaultyFile::new(
            move |_, direction| match (state.load(Ordering::Relaxed), direction) {
                (WRITE_FULL, Direction::Write) => Some(Fault::NoSpace),
                (WRITE_IO, Direction::Write) => Some(Fault::Io),
                (WRITE_LOST, Direction::Write) => Some(Fault::LostWrite),
                (WRITE_CORRUPT, Direction::Write) => Some(Fault::Corrupt),
                (READ_IO, Direction::Read) => Some(Fault::Io),
                (READ_CORRUPT, Direction::Read) => Some(Fault::Corrupt),
                _ => None,
            },
        )
    }
}

fn faulty() -> (Fixture, Switch) {
    let switch = Switch::default();
    let f = Fixture::with(swap_config(4000, SWAP), Box::new(switch.file()));
    (f, switch)
}

fn load(f: &mut Fixture, id: EntryId) -> Result<([u8; PAGE_SIZE], Source), LoadError> {
    let mut out = [0; PAGE_SIZE];
    let source = f.store.load(id, &mut out, &mut f.codec)?;
    Ok((out, source))
}

#[test]
fn a_failed_write_keeps_every_entry_in_the_pool() {
    for fault in [WRITE_FULL, WRITE_IO] {
        let (mut f, switch) = faulty();
        let ids = f.fill(0..1000);
        switch.set(fault);
        assert_eq!(f.drain(), 0);
        f.store.check();
        let stats = f.store.stats();
        assert_eq!((stats.stored_pages, stats.swapped_pages), (1000, 0));
        assert_eq!(
            (stats.zswpwb, stats.pswpout, stats.swap_used_bytes),
            (0, 0, 0)
        );
        assert!(stats.swap_write_fail > 0 && stats.reject_reclaim_fail > 0);
        assert!(
            f.store
                .swap_trouble()
                .is_some_and(|why| why.contains("cannot be written"))
        );
        f.verify(&ids, 0);
        switch.set(NONE);
        assert!(f.drain() > 0, "the disk has recovered");
        assert_eq!(f.store.swap_trouble(), None);
        f.verify(&ids, 0);
        f.store.check();
    }
}

#[test]
fn a_swap_file_that_is_full_is_told_until_there_is_room() {
    // Four extents, which hold fewer pages than the pool does.
    let mut f = Fixture::swap(4000, 1 << 20);
    assert_eq!(f.store.swap_trouble(), None);
    let ids = f.fill(0..1000);
    assert!(f.drain() > 0);
    let stats = f.store.stats();
    assert!(
        stats.stored_pages > 0 && stats.swapped_pages > 0,
        "{stats:?}"
    );
    assert_eq!(
        f.store.swap_trouble().as_deref(),
        Some("the swap file is full")
    );
    f.verify(&ids, 0);
    f.store.put_many(&ids);
    assert_eq!(f.store.swap_trouble(), None);
    f.store.check();
    // Without one, none is full.
    assert_eq!(Fixture::pool(8).store.swap_trouble(), None);
}

#[test]
fn a_failed_read_is_an_error_and_passes_with_the_fault() {
    let (mut f, switch) = faulty();
    let ids = f.fill(0..200);
    f.drain();
    switch.set(READ_IO);
    let error = load(&mut f, ids[0]).expect_err("EIO");
    assert!(
        matches!(error, LoadError::Io { entry, .. } if entry == ids[0]),
        "{error}"
    );
    assert!(error.to_string().contains("swap file"), "{error}");
    assert_eq!(f.store.stats().swap_read_fail, 1);
    switch.set(NONE);
    f.verify(&ids, 0);
    f.store.check();
}

#[test]
fn what_the_disk_changed_or_never_wrote_is_an_error_and_never_a_page() {
    for fault in [WRITE_LOST, WRITE_CORRUPT] {
        let (mut f, switch) = faulty();
        // Valid records first, so that a lost write leaves something that looks like one.
        let old = f.fill(5000..5500);
        f.drain();
        f.store.put_many(&old);
        let ids = f.fill(0..500);
        switch.set(fault);
        f.drain();
        switch.set(NONE);
        for (n, &id) in ids.iter().enumerate() {
            assert!(f.store.is_on_disk(id));
            match load(&mut f, id) {
                Err(LoadError::Corrupt { entry, .. }) => assert_eq!(entry, id),
                other => panic!("page {n} after fault {fault}: {:?}", other.map(|(_, s)| s)),
            }
        }
        assert_eq!(f.store.stats().swap_corrupt, 500);
        f.store.put_many(&ids);
        f.store.check();
    }
}

#[test]
fn a_corrupt_read_is_an_error_and_the_record_is_still_there() {
    let (mut f, switch) = faulty();
    let ids = f.fill(0..200);
    f.drain();
    switch.set(READ_CORRUPT);
    for &id in &ids {
        assert!(matches!(load(&mut f, id), Err(LoadError::Corrupt { .. })));
    }
    switch.set(NONE);
    f.verify(&ids, 0);
}

#[test]
fn one_bad_read_of_a_cluster_does_not_fail_the_others() {
    // Only the third read (the second record alone, after the batch failed) goes wrong again.
    let fault = |n: u64, direction| {
        (direction == Direction::Read && [1, 3].contains(&n)).then_some(Fault::Io)
    };
    let mut f = Fixture::with(swap_config(4000, SWAP), Box::new(FaultyFile::new(fault)));
    let ids = f.fill(0..16);
    f.drain();
    assert_eq!(f.store.stats().swapped_pages, 16);
    let mut out = vec![0; 16 * PAGE_SIZE];
    let results = f.store.load_cluster(&ids, &mut out, &mut f.codec);
    let failed: Vec<usize> = (0..16).filter(|&i| results[i].is_err()).collect();
    assert_eq!(failed.len(), 1, "{results:?}");
    for (i, bytes) in out.chunks(PAGE_SIZE).enumerate() {
        assert!(failed.contains(&i) || bytes == page(i as u64));
    }
    f.store.check();
    f.verify(&ids, 0);
}

#[test]
fn an_extent_with_a_damaged_record_does_not_keep_others_from_being_emptied() {
    let fault =
        |n: u64, direction| (direction == Direction::Write && n == 0).then_some(Fault::LostWrite);
    let config = swap_config(8000, 16 * EXTENT as u64);
    let mut f = Fixture::with(config, Box::new(FaultyFile::new(fault)));
    let ids = f.fill(0..6000);
    f.drain();
    assert!(!f.store.can_write_back());
    // Every extent becomes sparse, and the first, which has the write that was lost, the sparsest.
    for (i, &id) in ids.iter().enumerate() {
        let stays = if i < 256 { i % 8 == 0 } else { i % 4 == 0 };
        if !stays {
            f.store.put(id);
        }
    }
    let before = f.store.stats();
    f.drain();
    f.store.check();
    let after = f.store.stats();
    assert!(after.swap_moved_pages > 0, "{after:?}");
    assert!(after.swapped_pages > before.swapped_pages, "room was found");
}
