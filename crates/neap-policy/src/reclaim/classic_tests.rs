//! Vectors for the classic lists, worked out by hand from the rules (SPEC 3.2).

use super::super::Request;
use super::super::tests::{Fake, machine, request, switches};
use super::*;
use crate::folio::FolioId;
use crate::switches::{Lru, MemcgWalk};

/// A cgroup with pages on each list, in the order of `list_of`: inactive and active, of each kind.
fn lists(sizes: [u64; 4]) -> (Mm, LruvecId, Fake) {
    let of = switches(Lru::Classic, MemcgWalk::FullLinear);
    let (mut mm, memcgs, host) = machine(of, 1, 0);
    let lruvec = mm.lruvec_of(memcgs[0], 0);
    mm.memcgs
        .try_charge(0, memcgs[0], Pages(sizes.iter().sum()), true)
        .unwrap();
    for kind in Kind::BOTH {
        for active in [false, true] {
            for _ in 0..sizes[list_of(kind, active)] {
                add(&mut mm, lruvec, kind, active);
            }
        }
    }
    (mm, lruvec, host)
}

fn add(mm: &mut Mm, lruvec: LruvecId, kind: Kind, active: bool) -> FolioId {
    let flags = match kind {
        Kind::Anon => Flags::SWAPBACKED,
        Kind::File => Flags::default(),
    };
    let mut flags = flags;
    flags.set(Flags::ACTIVE, active);
    let id = mm.folios.alloc(lruvec, 0, flags);
    mm.add_folio(id, false);
    id
}

/// What is to be scanned of each list, with these costs of anonymous memory and of files.
fn targets(sizes: [u64; 4], costs: [u64; 2], priority: i8, change: fn(&mut Reclaim)) -> [u64; 4] {
    let (mut mm, lruvec, _) = lists(sizes);
    let mut reclaim = Reclaim::new(request(32));
    reclaim.priority = priority;
    reclaim.balance = Balance {
        costs,
        ..Balance::default()
    };
    change(&mut reclaim);
    let chunks = reclaim.scan_targets(lruvec, &mut mm);
    assert_eq!(chunks.left, chunks.targets);
    chunks.left
}

const SIZES: [u64; 4] = [1000, 400, 800, 1200];

#[test]
fn without_costs_swappiness_splits_the_scan() {
    // Quarters of the lists, 60 parts of 200 of anonymous memory and 140 of files.
    let found = targets(SIZES, [0, 0], 2, |_| ());
    assert_eq!(found, [75, 30, 140, 210]);
    let found = targets(SIZES, [0, 0], 2, |reclaim| {
        reclaim.request.swappiness = Some(200);
    });
    assert_eq!(found, [250, 100, 0, 0]);
}

#[test]
fn the_kind_that_costs_more_is_scanned_less() {
    // (a, f) = (2 * 100 + 300, 2 * 300 + 100) = (500, 700), of 1200: 60 * 1201 / 501 = 143 parts against
    // 140 * 1201 / 701 = 239.
    let found = targets(SIZES, [100, 300], 2, |_| ());
    assert_eq!(found, [93, 37, 125, 187]);
    // The other way round: (700, 500): 60 * 1201 / 701 = 102 against 140 * 1201 / 501 = 335.
    let found = targets(SIZES, [300, 100], 2, |_| ());
    assert_eq!(found, [58, 23, 153, 229]);
}

#[test]
fn at_the_last_priority_and_without_room_costs_do_not_matter() {
    let found = targets(SIZES, [100, 300], 0, |_| ());
    assert_eq!(found, SIZES, "all of both");
    let trim: fn(&mut Reclaim) = |reclaim| reclaim.balance.cache_trim = true;
    assert_eq!(targets(SIZES, [100, 300], 2, trim), [0, 0, 200, 300]);
    let tiny: fn(&mut Reclaim) = |reclaim| {
        reclaim.balance.cache_trim = true;
        reclaim.balance.file_is_tiny = true;
    };
    assert_eq!(targets(SIZES, [100, 300], 2, tiny), [250, 100, 0, 0]);
    let (mut mm, lruvec, _) = lists(SIZES);
    mm.free_swap = Pages::ZERO;
    let mut reclaim = Reclaim::new(request(32));
    reclaim.priority = 2;
    assert_eq!(reclaim.scan_targets(lruvec, &mut mm).left, [0, 0, 200, 300]);
}

#[test]
fn a_balance_trims_the_cache_only_while_many_inactive_files_are_enough() {
    // 800 inactive pages of files are some at priority 9 and none at 10.
    for (sizes, priority, want) in [
        ([10, 0, 800, 100], 9, true),
        ([10, 0, 800, 100], 10, false),
        ([10, 0, 800, 900], 9, false),
    ] {
        let (mm, _, host) = lists(sizes);
        let mut reclaim = Reclaim::new(request(32));
        reclaim.priority = priority;
        let balance = reclaim.balance_of(&mm, &host);
        assert_eq!(balance.cache_trim, want, "{sizes:?} at {priority}");
    }
}

/// Files and free pages together do not reach the high watermark, and there are anonymous pages to scan.
#[test]
fn few_files_are_spared_while_anonymous_pages_are_enough() {
    let tiny = |cause, sizes, priority, above: u64| {
        let (mm, _, mut host) = lists(sizes);
        host.high = (1 << 20) + above;
        let mut reclaim = Reclaim::new(Request {
            cause,
            ..request(32)
        });
        reclaim.priority = priority;
        reclaim.balance_of(&mm, &host).file_is_tiny
    };
    let sizes = [4000, 100, 120, 80];
    assert!(tiny(Cause::Kswapd, sizes, 2, 200));
    assert!(tiny(Cause::Direct, sizes, 2, 200));
    assert!(!tiny(Cause::Proactive, sizes, 2, 200), "of a cgroup");
    assert!(!tiny(Cause::Kswapd, sizes, 2, 199), "one page more");
    assert!(!tiny(Cause::Kswapd, sizes, 12, 200), "nothing to scan");
    let active = [2000, 2100, 120, 80];
    assert!(!tiny(Cause::Kswapd, active, 2, 200), "they are deactivated");
}

#[test]
fn of_a_cgroup_that_is_gone_short_lists_are_scanned_too() {
    let found = |online: bool| {
        let (mut mm, lruvec, _) = lists(SIZES);
        if !online {
            let memcg = mm.memcg_of(lruvec);
            mm.offline_memcg(memcg, |_| 0);
        }
        let mut reclaim = Reclaim::new(request(32));
        reclaim.priority = 12;
        reclaim.scan_targets(lruvec, &mut mm).left
    };
    assert_eq!(found(true), [0; 4]);
    // 32 of each list, split 60 to 140, and parts of a page are a page.
    assert_eq!(found(false), [10, 10, 23, 23]);
}

/// A visit whose goal is met goes on in proportion, but for the first pass of a task that wants a page.
#[test]
fn a_goal_that_is_met_trims_what_is_left() {
    let after_one = |cause, priority, goal| {
        let (mut mm, lruvec, mut host) = lists([100, 50, 400, 200]);
        let mut reclaim = Reclaim::new(Request {
            cause,
            ..request(goal)
        });
        reclaim.priority = priority;
        let targets = [100, 50, 400, 200];
        let mut chunks = Chunks {
            left: targets,
            targets,
            reclaimed: 0,
        };
        assert!(reclaim.classic_chunk(lruvec, &mut chunks, &mut mm, &mut host));
        chunks.left
    };
    let goes_on = [68, 18, 368, 168];
    let trimmed = [0, 0, 400 * 44 / 100 - 32, 200 * 44 / 100 - 32];
    assert_eq!(after_one(Cause::Direct, 12, 1), goes_on);
    assert_eq!(after_one(Cause::Direct, 11, 1), trimmed);
    assert_eq!(after_one(Cause::Kswapd, 12, 1), trimmed);
    assert_eq!(after_one(Cause::Proactive, 12, 1), trimmed);
    assert_eq!(after_one(Cause::Kswapd, 12, 10_000), goes_on);
}

#[test]
fn at_the_end_of_a_visit_active_anonymous_pages_are_kept_in_proportion() {
    let left = |sizes, swap: bool| {
        let (mut mm, lruvec, mut host) = lists(sizes);
        if !swap {
            mm.free_swap = Pages::ZERO;
        }
        let mut reclaim = Reclaim::new(request(32));
        reclaim.end_classic(lruvec, &mut mm, &mut host);
        let own = &mm.lruvec(lruvec).own;
        [own[0], own[1], own[2], own[3]]
    };
    assert_eq!(left([99, 100, 0, 100], true), [131, 68, 0, 100]);
    assert_eq!(left([100, 100, 0, 100], true), [100, 100, 0, 100]);
    assert_eq!(left([99, 100, 0, 100], false), [99, 100, 0, 100]);
}

#[test]
fn too_little_is_inactive_by_the_root_of_ten_times_the_gibibytes() {
    let (mut mm, lruvec, _) = lists([0; 4]);
    let gib = 1u64 << 18;
    for (inactive, active, low) in [
        // Below a GiB as many as active.
        (100, 100, false),
        (100, 101, true),
        // At 1, 10 and 100 GiB: a third, a tenth, a thirty-first.
        (gib / 4, gib * 3 / 4, false),
        (gib / 4 - 1, gib * 3 / 4 + 1, true),
        (gib, gib * 10, false),
        (gib - 1, gib * 10, true),
        (gib * 3, gib * 97, true),
        (gib * 4, gib * 96, false),
    ] {
        let total = &mut mm.lruvec_mut(lruvec).total;
        total[list_of(Kind::File, false)] = inactive;
        total[list_of(Kind::File, true)] = active;
        let found = mm.lruvec(lruvec).inactive_is_low(Kind::File);
        assert_eq!(found, low, "{inactive} inactive, {active} active");
    }
}

#[test]
fn the_longer_kind_is_trimmed_by_what_is_left_of_the_shorter() {
    let chunks = |targets: [u64; 4], scanned: [u64; 4]| Chunks {
        left: [0, 1, 2, 3].map(|list| targets[list] - scanned[list]),
        targets,
        reclaimed: 0,
    };
    // 86 of 150 are left of anonymous memory: 86 * 100 / 151 = 56 %. Of files 44 % is to be scanned in all, of
    // which 32 of each list are done.
    let mut found = chunks([100, 50, 400, 200], [32; 4]);
    assert!(found.trim());
    assert_eq!(found.left, [0, 0, 400 * 44 / 100 - 32, 200 * 44 / 100 - 32]);
    // The other way round, and more is done than the trimmed target asks for.
    let mut found = chunks([400, 40, 100, 50], [300, 40, 0, 50]);
    assert!(found.trim());
    // 100 of 150 are left of files: 100 * 100 / 151 = 66 %; 34 % of 400 is less than the 300 that are done.
    assert_eq!(found.left, [0, 0, 0, 0]);
    let mut found = chunks([100, 50, 400, 200], [100, 50, 32, 32]);
    assert!(!found.trim(), "nothing is left of one kind");
    assert_eq!(found.left, [0; 4]);
}

#[test]
fn only_files_that_are_executed_stay_active_when_looked_at() {
    let counts = |exec: bool, kind: Kind| {
        let mut sizes = [0; 4];
        sizes[list_of(kind, true)] = 10;
        let (mut mm, lruvec, mut host) = lists(sizes);
        host.hit_all(exec);
        let mut reclaim = Reclaim::new(request(32));
        reclaim.shrink_active(lruvec, kind, 32, &mut mm, &mut host);
        mm.lruvec(lruvec).own[list_of(kind, true)]
    };
    assert_eq!(counts(true, Kind::File), 10);
    assert_eq!(counts(false, Kind::File), 0);
    assert_eq!(counts(true, Kind::Anon), 0);
}

#[test]
fn a_page_read_back_costs_as_much_as_thirty_two_looks_and_costs_fade() {
    let (mut mm, lruvec, _) = lists([4000, 0, 4000, 0]);
    mm.note_cost(lruvec, Kind::Anon, 2, 5);
    assert_eq!(mm.lruvec(lruvec).costs(), [69, 0]);
    mm.note_cost(lruvec, Kind::File, 0, 1931);
    assert_eq!(
        mm.lruvec(lruvec).costs(),
        [69, 1931],
        "a quarter of 8000 is not more"
    );
    mm.note_cost(lruvec, Kind::File, 0, 1);
    assert_eq!(mm.lruvec(lruvec).costs(), [34, 966], "halved");
}
