use neap_policy::Protection;
use neap_units::{AtomicLimit, Bytes, Limit};

use super::*;
use crate::bare::Bare;
use crate::options::Walk;

const MIB: u64 = 1 << 20;

fn meter(mib: u64) -> Arc<Meter> {
    Arc::new(Meter::new(Bytes(mib * MIB), true))
}

fn named(groups: &Groups, name: &str, mib: u64) -> Result<Arc<Group>, NoPlace> {
    groups.add(Group {
        name: Some(Name::new(name).expect("a name")),
        parent: Some(groups.top().clone()),
        ..Group::bare(meter(mib))
    })
}

/// A job in a service.
pub(crate) fn a_job_of(groups: &Groups, name: &str) -> Arc<Group> {
    named(groups, name, 1 << 20).expect("a place")
}

fn groups() -> Groups {
    Groups::new(Group::top(None, false, meter(64)))
}

#[test]
fn a_page_counts_for_its_group_and_those_above_and_waits_for_the_fullest() {
    let groups = groups();
    let small = named(&groups, "small", 16).expect("a place");
    let other = named(&groups, "other", 32).expect("a place");
    small.charge(12 * MIB);
    other.charge(20 * MIB);
    let usage = [&small, &other, groups.top()].map(|group| group.meter.usage() / MIB);
    assert_eq!(usage, [12, 20, 32]);
    assert_eq!(small.room(), 4 * MIB, "its own limit is nearest");
    assert!(!small.must_hold(4 * MIB) && small.must_hold(5 * MIB));
    groups.top().charge(30 * MIB);
    assert!(
        small.must_hold(3 * MIB) && other.must_hold(3 * MIB),
        "the top is full"
    );
    small.uncharge(12 * MIB);
    assert_eq!(groups.top().meter.usage(), 50 * MIB);
    assert!(small.is_within(groups.top()) && !groups.top().is_within(&small));
    assert!(!small.is_within(&other));
}

#[test]
fn a_block_comes_around_a_fault_where_no_limit_is_near_and_no_high() {
    let groups = groups();
    let job = a_job_of(&groups, "job");
    let (block, page) = (TUNING.loads.around, Pages(1));
    job.charge(56 * MIB);
    assert_eq!(job.around(), block, "8 of 64 MiB are free");
    job.charge(MIB);
    assert_eq!(job.around(), page);
    groups.top().meter.set_open(true);
    job.charge(20 * MIB);
    assert_eq!(job.around(), page, "over the limit, and nobody waits");
    job.uncharge(70 * MIB);
    assert_eq!(job.around(), block);
    job.meter.set_high(Limit::Bytes(Bytes(7 * MIB)));
    assert_eq!(job.around(), page, "7 of 7 MiB");
}

#[test]
fn of_a_service_the_job_that_has_most_beyond_its_protection_is_ended() {
    let groups = groups();
    assert!(groups.victim(groups.top()).is_none(), "nobody has memory");
    let jobs = ["one", "two", "three"].map(|name| a_job_of(&groups, name));
    let number = |target: &Arc<Group>| groups.victim(target).map(|group| group.number);
    let [one, two, three] = &jobs;
    one.charge(20 * MIB);
    two.charge(30 * MIB);
    assert_eq!(number(groups.top()), Some(two.number));
    two.low.store(Limit::Bytes(Bytes(15 * MIB)));
    assert_eq!(number(groups.top()), Some(one.number), "15 MiB against 20");
    three.charge(20 * MIB);
    assert_eq!(
        number(groups.top()),
        Some(three.number),
        "the youngest of two"
    );
    one.low.store(Limit::Bytes(Bytes(20 * MIB)));
    three.low.store(Limit::Bytes(Bytes(20 * MIB)));
    two.low.store(Limit::Bytes(Bytes(30 * MIB)));
    assert_eq!(number(groups.top()), Some(two.number), "the largest");
    two.killed.store(true, Relaxed);
    assert_eq!(number(groups.top()), Some(three.number), "another");
    assert_eq!(number(one), Some(one.number), "its own limit");
    let plain = Groups::new(Group::top(Some(Root::own()), false, meter(64)));
    let inner = a_job_of(&plain, "inner");
    inner.charge(MIB);
    let victim = plain.victim(plain.top()).map(|group| group.number);
    assert_eq!(victim, Some(Group::TOP), "a plain run ends as a whole");
}

/// A process says itself which one it was forked from.
#[test]
fn a_process_of_another_job_is_no_relative() {
    let bare = Bare::serve(Walk::MemcgLru);
    let [one, other] = ["one", "other"].map(|name| bare.with(name, 0));
    let first = bare.space(&one, None);
    let family = first.kin.family();
    let stranger = bare.space(&other, Some(family));
    assert!(!first.kin.shares() && !stranger.kin.shares());
    let child = bare.space(&one, Some(family));
    assert!(first.kin.shares() && child.kin.shares());
    let own = stranger.kin.family();
    assert_ne!(own, family, "what is counted by families would mix them");
    let forked = bare.space(&other, Some(own));
    assert!(forked.kin.shares());
    let relatives = forked.kin.relatives(&bare.job, forked.id);
    assert_eq!(relatives.len(), 1);
}

#[test]
fn what_protects_a_run_within_a_job_is_bounded_by_the_job_and_shared_by_claims() {
    let groups = groups();
    let outer = named(&groups, "outer", 1024).expect("a place");
    let inner = |name: &str, low: u64, min: u64| {
        let group = Group {
            name: Some(Name::new(name).expect("a name")),
            parent: Some(outer.clone()),
            low: AtomicLimit::new(Limit::Bytes(Bytes(low * MIB))),
            min: AtomicLimit::new(Limit::Bytes(Bytes(min * MIB))),
            ..Group::bare(meter(1024))
        };
        groups.add(group).expect("a place")
    };
    let [one, other] = [inner("one", 80, 0), inner("other", 80, 0)];
    let bare = inner("bare", 0, 0);
    one.charge(60 * MIB);
    other.charge(60 * MIB);
    bare.charge(10 * MIB);
    let of = |group: &Group, target: &Group| groups.protects(group, target);
    let top = groups.top().clone();
    assert_eq!(
        of(&one, &outer),
        Protection::BelowLow,
        "the job is reclaimed"
    );
    assert_eq!(of(&one, &one), Protection::Open, "its own limit is");
    assert_eq!(
        of(&one, &top),
        Protection::Open,
        "the job has no protection"
    );
    // It has some: each of the two claims 60 MiB of that.
    let protect = |mib: u64| outer.low.store(Limit::Bytes(Bytes(mib * MIB)));
    protect(118);
    assert_eq!(of(&one, &top), Protection::Open, "59 MiB of 60");
    protect(121);
    assert_eq!(of(&one, &top), Protection::BelowLow);
    assert_eq!(of(&bare, &top), Protection::Open);
    protect(200);
    assert_eq!(of(&bare, &top), Protection::BelowLow, "as all of the job");
    one.min.store(Limit::Bytes(Bytes(70 * MIB)));
    assert_eq!(of(&one, &outer), Protection::BelowMin);
    assert!(groups.is_kept_from_all(&one));
}

#[test]
fn a_name_is_taken_once_and_nobody_joins_what_is_about_to_end() {
    let groups = groups();
    let epoch = groups.epoch();
    let one = named(&groups, "one", 16).expect("a place");
    assert_eq!(named(&groups, "one", 16).map(drop), Err(NoPlace::Taken));
    assert!(!groups.close_if_empty(), "there is one");
    groups.remove(&one);
    assert!(groups.epoch() > epoch);
    assert!(named(&groups, "one", 16).is_ok_and(|other| other.number > one.number));
    let all = groups.below();
    all.iter().for_each(|group| groups.remove(group));
    assert!(groups.close_if_empty());
    assert_eq!(named(&groups, "two", 16).map(drop), Err(NoPlace::Closed));
}

#[test]
fn events_are_counted_on_the_way_up() {
    let groups = groups();
    let one = named(&groups, "one", 16).expect("a place");
    one.count(|events| &events.pgfault, 3);
    groups.top().count(|events| &events.pgfault, 1);
    let counted = |group: &Group| group.events.pgfault.load(Relaxed);
    assert_eq!((counted(&one), counted(groups.top())), (3, 4));
}

#[test]
fn a_fault_that_waits_is_an_event_of_the_level_that_is_full_and_of_those_above() {
    let groups = groups();
    let small = named(&groups, "small", 16).expect("a place");
    let events = |group: &Group| {
        let counted = [&group.events.full, &group.events.max];
        counted.map(|count| count.load(Relaxed))
    };
    small.note_full();
    assert_eq!(events(&small), [0, 0], "it has room");
    small.charge(16 * MIB);
    small.note_full();
    assert_eq!((events(&small), events(groups.top())), ([1, 1], [0, 1]));
    small.uncharge(MIB);
    groups.top().charge(60 * MIB);
    small.note_full();
    assert_eq!((events(&small), events(groups.top())), ([1, 1], [1, 2]));
}
