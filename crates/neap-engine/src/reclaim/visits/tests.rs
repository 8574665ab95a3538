use neap_imagined::Chance;
use neap_units::Limit;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::bare::Bare;

/// Visits until so many pages were taken: of whom, and how many at a time. It ends early where nobody may be visited.
fn reclaim(visits: &mut Visits, bare: &Bare, pages: u64, in_vain: bool) -> Vec<(u64, u64)> {
    bare.want(pages);
    visits.begin(&bare.job);
    let mut all: Vec<(u64, u64)> = Vec::new();
    while bare.job.meter.excess() > 0 {
        let Turn::Of(group, most) = visits.next(&bare.job, in_vain) else {
            break;
        };
        let taken = bare.take(&group, most);
        visits.took(&bare.job, taken);
        all.push((group.number, taken as u64));
    }
    all
}

fn of(all: &[(u64, u64)], group: &Group) -> u64 {
    let its = all.iter().filter(|(number, _)| *number == group.number);
    its.map(|(_, taken)| taken).sum()
}

/// In the order in which they were visited, each visit once.
fn order(all: &[(u64, u64)]) -> Vec<u64> {
    let mut numbers: Vec<u64> = all.iter().map(|(number, _)| *number).collect();
    numbers.dedup();
    numbers
}

fn jobs(bare: &Bare, sizes: &[u64]) -> Vec<Arc<Group>> {
    let job = |(at, pages): (usize, &u64)| bare.with(&format!("job-{at}"), *pages);
    sizes.iter().enumerate().map(job).collect()
}

#[test]
fn without_jobs_all_are_visited_at_once() {
    let (bare, mut visits) = (Bare::serve(Walk::MemcgLru), Visits::new(1));
    assert!(matches!(visits.next(&bare.job, false), Turn::All));
    let one = bare.with("one", 1024);
    bare.want(256);
    visits.begin(&bare.job);
    assert!(
        matches!(visits.next(&bare.job, false), Turn::Of(group, _) if group.number == one.number)
    );
}

/// For any sizes and any chance: what is taken of each is in proportion to what it has, to within a step.
#[test]
fn each_gives_in_proportion_to_what_it_has() {
    for seed in 1..=20 {
        let mut chance = Chance::new(seed);
        let count = 2 + chance.draw() % 12;
        let sizes: Vec<u64> = (0..count).map(|_| 2048 + chance.draw() % 6144).collect();
        let (bare, mut visits) = (Bare::serve(Walk::MemcgLru), Visits::new(seed));
        let jobs = jobs(&bare, &sizes);
        let sum: u64 = sizes.iter().sum();
        let all: Vec<_> = (0..8)
            .flat_map(|_| reclaim(&mut visits, &bare, sum / 32, false))
            .collect();
        let taken: u64 = all.iter().map(|(_, taken)| taken).sum();
        assert!(taken >= sum / 4, "{taken} of {sum}");
        for (group, size) in jobs.iter().zip(&sizes) {
            let share = of(&all, group) as f64 / *size as f64;
            assert!(
                (0.15..0.35).contains(&share),
                "seed {seed}: {share} of {size} in {sizes:?}"
            );
        }
    }
}

/// However little is asked for at a time: nobody is visited twice before all were.
#[test]
fn nobody_gives_twice_before_each_has_given() {
    let (bare, mut visits) = (Bare::serve(Walk::MemcgLru), Visits::new(3));
    let jobs = jobs(&bare, &[4096; 12]);
    let all: Vec<_> = (0..36)
        .flat_map(|_| reclaim(&mut visits, &bare, BATCH as u64, false))
        .collect();
    // A visit takes two blocks.
    let mut taken = vec![0; jobs.len() + 1];
    for (number, pages) in &all {
        taken[*number as usize] += pages;
        let (least, most) = (taken[1..].iter().min(), taken.iter().max());
        assert!(
            most <= least.map(|least| least + 2 * BATCH as u64).as_ref(),
            "{all:?}"
        );
    }
    assert!(taken[1..].iter().all(|&taken| taken > 2 * BATCH as u64));
}

#[test]
fn low_protects_until_nothing_else_comes_and_min_always() {
    let (bare, mut visits) = (Bare::serve(Walk::MemcgLru), Visits::new(5));
    let names = ["open", "low", "min"];
    let [open, low, min] = names.map(|name| bare.with(name, 2048));
    low.low.store(Limit::Max);
    min.min.store(Limit::Max);
    let all = reclaim(&mut visits, &bare, 1024, false);
    assert!(of(&all, &open) >= 1024 && of(&all, &low) + of(&all, &min) == 0);
    open.min.store(Limit::Max);
    assert_eq!(
        reclaim(&mut visits, &bare, 1024, false),
        [],
        "all are protected"
    );
    assert!(matches!(visits.next(&bare.job, false), Turn::Nobody));
    let all = reclaim(&mut visits, &bare, 512, true);
    assert!(of(&all, &low) >= 512 && of(&all, &open) + of(&all, &min) == 0);
    assert!(low.events.low.load(Relaxed) > 0, "it is counted");
    assert_eq!(min.events.low.load(Relaxed), 0);
}

/// The full walk begins with the first each time, the cookie walk where the last one stopped.
#[test]
fn each_kind_of_walk_has_its_order() {
    let ways = [(Walk::Full, [1, 1, 1]), (Walk::Cookie, [1, 2, 3])];
    for (walk, first) in ways {
        let (bare, mut visits) = (Bare::serve(walk), Visits::new(7));
        jobs(&bare, &[4096; 4]);
        let visited = first.map(|_| order(&reclaim(&mut visits, &bare, 32, false))[0]);
        assert_eq!(visited, first, "{walk:?}");
        let all = order(&reclaim(&mut visits, &bare, 2048, false));
        assert!(all.len() >= 4, "{walk:?}: {all:?}");
        let follows = |pair: &[u64]| pair[1] == pair[0] % 4 + 1;
        assert!(all.windows(2).all(follows), "{walk:?}: {all:?}");
    }
}

#[test]
fn who_comes_is_visited_and_who_goes_is_not() {
    for walk in [Walk::MemcgLru, Walk::Full, Walk::Cookie] {
        let (bare, mut visits) = (Bare::serve(walk), Visits::new(9));
        let [one, two] = ["one", "two"].map(|name| bare.with(name, 4096));
        reclaim(&mut visits, &bare, 512, false);
        bare.job.leave(&one);
        let three = bare.with("three", 4096);
        let all = reclaim(&mut visits, &bare, 2048, false);
        assert_eq!(of(&all, &one), 0, "{walk:?}");
        assert!(of(&all, &two) > 0 && of(&all, &three) > 0, "{walk:?}");
    }
}

/// Where nothing comes each walk is harder than the one before.
#[test]
fn a_walk_in_vain_makes_the_next_take_more() {
    let (bare, mut visits) = (Bare::serve(Walk::MemcgLru), Visits::new(11));
    let one = bare.with("one", 1 << 15);
    bare.want(64);
    visits.begin(&bare.job);
    let mut shares = Vec::new();
    for _ in 0..4 {
        assert!(matches!(visits.next(&bare.job, false), Turn::Of(..)));
        shares.push(visits.visit.as_ref().map_or(0, |visit| visit.left));
        visits.took(&bare.job, 0);
    }
    assert!(
        shares.windows(2).all(|pair| pair[0] < pair[1]),
        "{shares:?}"
    );
    assert!(shares[3] <= bare.job.resident_of(&one).0, "{shares:?}");
}

/// A turn is one step of the walk, and takes as many pages, for any number of jobs.
#[test]
fn a_turn_takes_as_many_pages_for_any_number_of_jobs() {
    let turns = [4, 32, 256].map(|count| {
        let (bare, mut visits) = (Bare::serve(Walk::MemcgLru), Visits::new(13));
        jobs(&bare, &vec![512; count]);
        let all = reclaim(&mut visits, &bare, count as u64 * 128, false);
        all.len() * 1000 / count
    });
    let (least, most) = (turns.iter().min(), turns.iter().max());
    let (least, most) = (least.expect("three"), most.expect("three"));
    assert!(most * 4 <= least * 5, "of a thousand jobs: {turns:?}");
}
