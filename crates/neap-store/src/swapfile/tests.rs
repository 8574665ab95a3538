use std::collections::HashMap;

use proptest::prelude::*;

use super::extent::{EXTENT, Extents, Region};
use super::{BLOCK, GRAIN, Location, blocks_of};

#[test]
fn a_range_of_blocks_covers_its_bytes_and_no_more() {
    assert_eq!(blocks_of(0, 1), 0..4096);
    assert_eq!(blocks_of(4095, 1), 0..4096);
    assert_eq!(blocks_of(4095, 2), 0..8192);
    assert_eq!(blocks_of(4096, 4096), 4096..8192);
    assert_eq!(blocks_of(4064, 4100), 0..8192);
}

#[test]
fn a_location_survives_packing() {
    for byte in [0, 32, 4096, (1 << 37) - 32] {
        assert_eq!(Location::at(byte).byte(), byte);
    }
}

#[test]
fn a_file_without_room_has_none() {
    let mut extents = Extents::new(EXTENT as u64 - 1);
    assert_eq!((extents.room(0), extents.free_extents()), (0, 0));
    assert_eq!(extents.reserve(BLOCK), None);
}

/// What is done to the extents.
#[derive(Clone, Debug)]
enum Op {
    /// Reserve so many blocks and fill them with records of so many grains.
    Write(usize, usize),
    /// Reserve and fail.
    Fail(usize),
    Release(u16),
    Punch,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..=EXTENT / BLOCK, 1usize..130).prop_map(|(blocks, grains)| Op::Write(blocks, grains)),
        1 => (1..=EXTENT / BLOCK).prop_map(Op::Fail),
        8 => any::<u16>().prop_map(Op::Release),
        1 => Just(Op::Punch),
    ]
}

fn place(
    extents: &mut Extents,
    live: &mut HashMap<u64, usize>,
    region: Region,
    len: usize,
    room: usize,
) {
    let mut at = 0;
    while at + room <= len {
        let location = Location::at(region.start + at as u64);
        assert_eq!(extents.generation(location), region.generation);
        extents.add(location, room);
        live.insert(location.byte(), room);
        at += room;
    }
    extents.finish(region);
}

proptest! {
    /// Nothing live is ever given out again, and everything dead is.
    #[test]
    fn extents_are_given_out_once(ops in prop::collection::vec(op(), 1..300), limit in 1u64..10) {
        let mut extents = Extents::new(limit * EXTENT as u64);
        let mut live: HashMap<u64, usize> = HashMap::new();
        let mut generations: HashMap<u64, u32> = HashMap::new();
        for op in ops {
            match op {
                Op::Write(blocks, grains) => {
                    let len = blocks * BLOCK;
                    if let Some(region) = extents.reserve(len) {
                        let end = region.start + len as u64;
                        prop_assert!(end <= limit * EXTENT as u64);
                        prop_assert!(live.iter().all(|(&at, &room)| at + room as u64 <= region.start || at >= end));
                        place(&mut extents, &mut live, region, len, grains * GRAIN);
                        let extent = region.start / EXTENT as u64;
                        let earlier = generations.insert(extent, region.generation);
                        prop_assert!(earlier.is_none_or(|g| g <= region.generation));
                    } else {
                        prop_assert_eq!(extents.free_extents(), 0);
                    }
                }
                Op::Fail(blocks) => {
                    if let Some(region) = extents.reserve(blocks * BLOCK) {
                        extents.finish(region);
                    }
                }
                Op::Release(n) => {
                    let mut all: Vec<u64> = live.keys().copied().collect();
                    all.sort_unstable();
                    if let Some(&at) = all.get(usize::from(n) % all.len().max(1)) {
                        let room = live.remove(&at).expect("live");
                        extents.release(Location::at(at), room);
                    }
                }
                Op::Punch => {
                    if let Some(range) = extents.take_to_punch() {
                        prop_assert!(live.keys().all(|at| !range.contains(at)));
                        extents.punched(range);
                    }
                }
            }
            extents.check(live.iter().map(|(&at, &room)| (Location::at(at), room)));
            prop_assert_eq!(extents.used_bytes(), live.values().sum::<usize>() as u64);
        }
    }
}
