use neap_units::{Nanos, Pages};

use super::*;
use crate::kernel::{Area, KernelConfig, MemcgId};
use crate::workload::{Load, Pattern, Walker};

struct Work(u64);

impl Program for Work {
    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        if self.0 == 0 {
            return Step::Exit;
        }
        self.0 -= 1;
        if self.0.is_multiple_of(3) {
            return Step::SleepUntil(cx.now + Nanos::micros(10));
        }
        Step::Compute(Nanos::millis(2))
    }
}

fn machine(cpus: u32) -> Machine {
    let config = KernelConfig {
        cpus,
        ..KernelConfig::default()
    };
    Machine::new(&config, Clockwork::default())
}

#[test]
fn tasks_share_a_cpu_by_slices() {
    let mut one = machine(1);
    let a = one.spawn(Box::new(Work(1000)), Nanos::ZERO, true);
    let b = one.spawn(Box::new(Work(1000)), Nanos::ZERO, true);
    assert!(one.finish(Nanos(u64::MAX)));
    let (a, b) = (one.times(a), one.times(b));
    assert_eq!(a.times.user, b.times.user);
    let ends = [a.ended.unwrap(), b.ended.unwrap()];
    let apart = ends[0].0.abs_diff(ends[1].0);
    assert!(apart < 10_000_000, "both end within a few slices: {ends:?}");
    let work = a.times.user + b.times.user;
    assert!(one.now() >= work, "one CPU does one thing at a time");
    let mut two = machine(2);
    two.spawn(Box::new(Work(1000)), Nanos::ZERO, true);
    two.spawn(Box::new(Work(1000)), Nanos::ZERO, true);
    assert!(two.finish(Nanos(u64::MAX)));
    assert!(two.now().0 < one.now().0 * 6 / 10);
}

#[test]
fn a_limit_ends_what_does_not_end_itself() {
    let mut machine = machine(1);
    machine.spawn(Box::new(Work(1000)), Nanos::ZERO, true);
    assert!(!machine.finish(Nanos::millis(5)));
    assert!(machine.now() <= Nanos::millis(10));
    machine.run_until(Nanos::millis(50));
    assert!(machine.now() >= Nanos::millis(50));
}

#[test]
fn every_touch_is_made_once_and_in_its_time() {
    let mut machine = machine(2);
    let memcg = machine.kernel().create_memcg(MemcgId::ROOT, "a");
    let done = machine.shared().make(0);
    let load = Load {
        touches: 1000,
        pace: Nanos(98),
        done: Some(done),
        populate: true,
        ..Load::new(
            memcg,
            Area::anon(Pages(64)),
            Walker::new(Pattern::Random, 64),
        )
    };
    let task = machine.spawn(load.program(), Nanos::ZERO, true);
    assert!(machine.finish(Nanos(u64::MAX)));
    assert_eq!(machine.shared().get(done), 1000);
    // 1,064 touches of 98 ns of work and 2 ns of access.
    assert_eq!(machine.times(task).times.user, Nanos(1_064 * 100));
    assert!(machine.times(task).times.system > Nanos::ZERO);
}

/// Computes once for this long.
struct Long(Nanos);

impl Program for Long {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        match std::mem::take(&mut self.0) {
            Nanos::ZERO => Step::Exit,
            span => Step::Compute(span),
        }
    }
}

/// Sleeps for ten seconds and computes for a second, so often.
struct Sleeper(u32);

impl Program for Sleeper {
    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        let Some(left) = self.0.checked_sub(1) else {
            return Step::Exit;
        };
        self.0 = left;
        match left % 2 {
            1 => Step::SleepUntil(cx.now + Nanos::millis(10_000)),
            _ => Step::Compute(Nanos::millis(1000)),
        }
    }
}

/// Slice by slice this would take a day.
#[test]
fn a_year_of_work_is_passed_at_once() {
    let year = Nanos::millis(365 * 86_400_000);
    let mut alone = machine(2);
    let task = alone.spawn(Box::new(Long(year)), Nanos::ZERO, true);
    assert!(alone.finish(Nanos(u64::MAX)));
    let times = alone.times(task);
    assert_eq!((times.times.user, times.ended), (year, Some(year)));
    let mut cut = machine(2);
    let task = cut.spawn(Box::new(Long(year)), Nanos::ZERO, true);
    assert!(!cut.finish(Nanos::millis(10)));
    assert_eq!(
        cut.times(task).times.user,
        Nanos::millis(12),
        "whole slices"
    );
}

#[test]
fn who_sleeps_meanwhile_is_woken_in_time() {
    let hour = Nanos::millis(3_600_000);
    let mut one = machine(1);
    let long = one.spawn(Box::new(Long(hour)), Nanos::ZERO, true);
    let sleeper = one.spawn(Box::new(Sleeper(20)), Nanos::ZERO, true);
    assert!(one.finish(Nanos(u64::MAX)));
    let (long, sleeper) = (one.times(long), one.times(sleeper));
    let work = Nanos::millis(10_000);
    assert_eq!((long.times.user, sleeper.times.user), (hour, work));
    assert_eq!(long.ended, Some(hour + work), "nothing is lost");
    // Ten sleeps, and ten seconds of work at half speed, each a slice late at most.
    let late = sleeper.ended.unwrap() - Nanos::millis(120_000);
    assert!(late < Nanos::millis(100), "{late}");
}

/// Computes and sleeps by turns, for spans that meet no slice.
struct Restless(u32);

impl Program for Restless {
    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        let Some(left) = self.0.checked_sub(1) else {
            return Step::Exit;
        };
        self.0 = left;
        match left % 2 {
            1 => Step::SleepUntil(cx.now + Nanos::micros(700)),
            _ => Step::Compute(Nanos::micros(1_100)),
        }
    }
}

#[test]
fn nobody_is_on_two_cpus_at_once_and_no_cpu_is_idle_while_somebody_waits() {
    let work = Nanos::millis(100);
    let mut machine = machine(2);
    let long = [(); 3].map(|()| machine.spawn(Box::new(Long(work)), Nanos::ZERO, true));
    let restless = machine.spawn(Box::new(Restless(40)), Nanos::ZERO, true);
    assert!(machine.finish(Nanos(u64::MAX)));
    for task in long {
        let times = machine.times(task);
        assert_eq!(times.times.user, work);
        assert!(times.ended.unwrap() >= work, "{:?}", times.ended);
    }
    // 322 ms of work on two CPUs; the last one of three may be alone with what is left of its slices.
    assert_eq!(machine.times(restless).times.user, Nanos::micros(22_000));
    assert_eq!(machine.total().user, work * 3 + Nanos::micros(22_000));
    let ends = long.map(|task| machine.times(task).ended.unwrap());
    let end = ends.into_iter().max().unwrap();
    assert!(end < Nanos::millis(161 + 6), "{end}");
}

#[test]
fn who_wakes_waits_for_one_slice_at_most() {
    let mut machine = machine(1);
    let long = machine.spawn(Box::new(Long(Nanos::millis(400))), Nanos::ZERO, true);
    let restless = machine.spawn(Box::new(Restless(40)), Nanos::ZERO, true);
    assert!(machine.finish(Nanos(u64::MAX)));
    assert_eq!(machine.times(long).times.user, Nanos::millis(400));
    // Twenty times: asleep, up to a slice until it has the CPU, and its work.
    let each = Nanos::micros(700 + 3_000 + 1_100);
    let end = machine.times(restless).ended.unwrap();
    assert!(end <= each * 20, "{end}");
}
