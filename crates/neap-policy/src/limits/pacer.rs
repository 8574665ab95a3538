//! The pace of reclaim under the limit of a job.
//!
//! The kernel charges each page before it exists, and makes whoever exceeds a limit
//! reclaim (SPEC 5.2). neap learns of memory after the fact: until mappings are
//! registered the program faults at full speed and is only sampled; afterwards fresh
//! pages can be made to wait. So the pacer keeps distance: it registers before the
//! program could have run past the limit between two samples, and it reclaims ahead by
//! as much as the program has lately been able to take.
//!
//! ```text
//! 0 ......... arm ......... reclaim_to ... reclaim ... hold_above . limit
//!   sampled only   register               wake          wait
//! ```

use neap_tuning::{Share, TUNING};
use neap_units::{Bytes, Nanos};

/// Scale of rates: bytes for each 2^20 ns (about a millisecond), so that 1 KB/s is not
/// rounded away and 2^43 bytes in a sample still fit.
const RATE_SHIFT: u32 = 20;

/// What to do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Register mappings now. Stays on once on.
    pub arm: bool,
    /// Wake reclaim until usage is at most this.
    pub reclaim_to: Option<Bytes>,
    /// Fresh pages wait while usage is estimated above this.
    pub hold_above: Bytes,
    /// How long the sampler may sleep.
    pub next_sample: Nanos,
}

/// Turns samples of usage into plans. Time comes in with each sample.
#[derive(Clone, Debug)]
pub struct Pacer {
    limit: Bytes,
    /// Bytes a nanosecond that all cpus together can add.
    worst: u64,
    armed: bool,
    /// Fastest growth lately, in bytes for each 2^20 ns.
    rate: u64,
    /// The same of growth by native faults, once armed: when it was seen, and how fast it was.
    native: (Nanos, u64),
    native_since: Nanos,
    /// Sample that the next rate is taken from.
    since: Option<(Nanos, Bytes)>,
    sleep: Nanos,
    last_usage: Bytes,
}

impl Pacer {
    /// A pacer for a job limited to `limit`, on a machine where `cpus` cpus can fault
    /// at once.
    #[must_use]
    pub fn new(limit: Bytes, cpus: u32) -> Pacer {
        let worst = TUNING.limit.fastest * u64::from(cpus.max(1));
        Pacer {
            limit,
            worst,
            armed: false,
            rate: 0,
            native: (Nanos::ZERO, 0),
            native_since: Nanos::ZERO,
            since: None,
            sleep: TUNING.limit.sample,
            last_usage: Bytes::ZERO,
        }
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> Bytes {
        self.limit
    }

    /// Moves the limit. What is known of the program stays.
    pub fn set_limit(&mut self, limit: Bytes) {
        self.limit = limit;
    }

    /// Usage at which mappings are registered.
    #[must_use]
    pub fn arm_point(&self) -> Bytes {
        let share = |share: Share| Bytes(share.of(self.limit.0));
        let in_time = self
            .limit
            .saturating_sub(Bytes(self.worst * TUNING.limit.register.0));
        in_time
            .min(share(TUNING.limit.register_by))
            .max(share(TUNING.limit.register_from))
    }

    /// Registers from now on, whatever the usage: more is foreseen.
    pub fn arm(&mut self) {
        self.armed = true;
    }

    /// Distance from the limit at which reclaim starts: what the program took lately
    /// in the time reclaim needs, within bounds.
    #[must_use]
    pub fn headroom(&self) -> Bytes {
        let most = Bytes(TUNING.limit.headroom_at_most.of(self.limit.0));
        let spare = Bytes(TUNING.limit.headroom_spare.of(self.limit.0));
        // A tiny limit has less than the least headroom to spare.
        let least = spare
            .clamp(TUNING.limit.headroom, TUNING.limit.headroom_large)
            .max(Bytes(TUNING.limit.headroom_share.of(self.limit.0)))
            .min(most);
        grown(self.rate, TUNING.limit.reclaim_within).clamp(least, most)
    }

    /// Usage to which reclaim goes on once it has begun.
    #[must_use]
    pub fn goal(&self) -> Bytes {
        let headroom = self.headroom();
        let beyond = Bytes(TUNING.limit.reclaim_beyond.of(headroom.0));
        self.limit.saturating_sub(headroom + beyond)
    }

    /// Takes a sample of the job's usage at time `now` and says what to do.
    pub fn observe(&mut self, now: Nanos, usage: Bytes) -> Plan {
        self.learn_rate(now, usage);
        self.armed |= usage >= self.arm_point();
        let headroom = self.headroom();
        let reclaims = usage > self.limit.saturating_sub(headroom);
        let grew = usage > self.last_usage;
        self.last_usage = usage;
        self.sleep = if !self.armed {
            let room = self.arm_point().saturating_sub(usage);
            Nanos(room.0 / self.worst).clamp(TUNING.limit.sample, TUNING.limit.sample_at_most)
        } else if grew || reclaims {
            TUNING.limit.sample
        } else {
            let room = self.limit.saturating_sub(usage);
            let most = Nanos(room.0 / 4 / self.worst)
                .clamp(TUNING.limit.sample_registered, TUNING.limit.sample_at_most);
            (self.sleep * 2)
                .min(time_of(room / 2, self.native_at(now)))
                .clamp(TUNING.limit.sample, most)
        };
        Plan {
            arm: self.armed,
            reclaim_to: reclaims.then(|| self.goal()),
            hold_above: self
                .limit
                .saturating_sub(Bytes(TUNING.limit.hold_within.of(headroom.0))),
            next_sample: self.sleep,
        }
    }

    /// Tells what of the growth until `now` neap's own work does not explain: memory that was mapped since the
    /// mappings were looked for, whose faults wait for nothing. Once seen it is watched for.
    pub fn observe_native(&mut self, now: Nanos, grown: Bytes) {
        let elapsed = now.saturating_sub(self.native_since);
        self.native_since = now;
        let seen = self.rate_of(grown, elapsed.max(TUNING.limit.rate_over));
        if self.armed && seen >= self.native_at(now) {
            self.native = (now, seen);
        }
    }

    /// What is left of the fastest native growth.
    fn native_at(&self, now: Nanos) -> u64 {
        let (then, rate) = self.native;
        faded(rate, now.saturating_sub(then), TUNING.limit.forget_native)
    }

    fn rate_of(&self, growth: Bytes, elapsed: Nanos) -> u64 {
        let rate = (u128::from(growth.0) << RATE_SHIFT) / u128::from(elapsed.0);
        rate.min((self.worst << RATE_SHIFT).into()) as u64
    }

    /// Keeps a maximum of the growth seen, which fades.
    fn learn_rate(&mut self, now: Nanos, usage: Bytes) {
        let Some((then, before)) = self.since else {
            self.since = Some((now, usage));
            return;
        };
        let elapsed = now.saturating_sub(then);
        if elapsed < TUNING.limit.rate_over {
            return;
        }
        let seen = self.rate_of(usage.saturating_sub(before), elapsed);
        self.rate = seen.max(faded(self.rate, elapsed, TUNING.limit.forget));
        self.since = Some((now, usage));
    }
}

/// What is left of a rate that is forgotten within `forget`.
fn faded(rate: u64, elapsed: Nanos, forget: Nanos) -> u64 {
    let forgotten = u128::from(rate) * u128::from(elapsed.min(forget).0);
    rate - (forgotten / u128::from(forget.0)) as u64
}

/// Time in which a rate adds so many bytes.
fn time_of(bytes: Bytes, rate: u64) -> Nanos {
    let time = (u128::from(bytes.0) << RATE_SHIFT) / u128::from(rate.max(1));
    Nanos(u64::try_from(time).unwrap_or(u64::MAX))
}

/// Bytes that a rate adds in a time.
fn grown(rate: u64, time: Nanos) -> Bytes {
    Bytes(((u128::from(rate) * u128::from(time.0)) >> RATE_SHIFT) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(n: u64) -> Nanos {
        Nanos::millis(n)
    }

    #[test]
    fn the_arm_point_leaves_time_to_register() {
        let at = |mib, cpus| Pacer::new(Bytes::mib(mib), cpus).arm_point();
        assert_eq!(at(1024, 2), Bytes::mib(768), "a large limit: 75 %");
        assert_eq!(
            at(64, 2),
            Bytes::mib(64) - Bytes(24_000_000),
            "4 ms at 6 bytes/ns"
        );
        assert_eq!(at(64, 64), Bytes::mib(16), "never below 25 %");
        assert_eq!(
            Pacer::new(Bytes(u64::MAX), 1).arm_point(),
            Bytes(u64::MAX / 4 * 3 + 2)
        );
    }

    #[test]
    fn far_from_the_arm_point_the_sampler_sleeps_as_long_as_is_safe() {
        let mut pacer = Pacer::new(Bytes::gib(16), 1);
        let plan = pacer.observe(ms(0), Bytes::ZERO);
        assert_eq!(plan.next_sample, TUNING.limit.sample_at_most);
        assert!(!plan.arm && plan.reclaim_to.is_none());
        let room = Bytes(30_000_000);
        let plan = pacer.observe(ms(200), pacer.arm_point() - room);
        assert_eq!(plan.next_sample, ms(10), "30 MB at 3 bytes/ns");
        let plan = pacer.observe(ms(210), pacer.arm_point() - Bytes(1));
        assert_eq!((plan.arm, plan.next_sample), (false, TUNING.limit.sample));
        assert!(pacer.observe(ms(211), pacer.arm_point()).arm);
        assert!(pacer.observe(ms(212), Bytes::ZERO).arm, "stays on");
    }

    #[test]
    fn once_armed_a_flat_program_is_sampled_ever_less() {
        let mut pacer = Pacer::new(Bytes::gib(1), 1);
        let mut sleeps = |room| {
            let usage = Bytes::gib(1) - Bytes(room);
            [(); 8].map(|()| pacer.observe(ms(20), usage).next_sample)
        };
        let near = [1, 2, 4, 8, 16, 20, 20, 20].map(ms);
        assert_eq!(sleeps(60_000_000), near);
        let far = [40, 50, 50, 50, 50, 50, 50, 50].map(ms);
        assert_eq!(
            sleeps(600_000_000),
            far,
            "a quarter of the room at 3 bytes/ns"
        );
        assert_eq!(sleeps(1_000_000_000)[7], Nanos(1_000_000_000 / 4 / 3));
        let usage = Bytes::gib(1) - Bytes(60_000_000);
        assert_eq!(
            pacer.observe(ms(200), usage + Bytes(1)).next_sample,
            TUNING.limit.sample
        );
    }

    #[test]
    fn a_program_that_grew_past_neap_is_watched_for_seconds() {
        let mut pacer = Pacer::new(Bytes::mib(64), 1);
        let usage = Bytes::mib(56);
        pacer.observe(ms(0), usage);
        let millis = |time: Nanos| (time.0 + 500_000) / 1_000_000;
        pacer.observe_native(ms(1), Bytes::mib(2));
        let flat = |pacer: &mut Pacer, from: u64| -> Nanos {
            let sleeps = (0..9).map(|n| pacer.observe(ms(from + n * 20), usage).next_sample);
            sleeps.last().expect("some")
        };
        assert_eq!(millis(flat(&mut pacer, 1)), 2, "4 of 8 MiB at 2 MiB/ms");
        let calm = |pacer: &mut Pacer, until: u64| {
            (2..until).for_each(|at| pacer.observe_native(ms(at), Bytes::ZERO));
        };
        calm(&mut pacer, 1001);
        assert_eq!(
            millis(flat(&mut pacer, 1001 - 160)),
            4,
            "half is forgotten after half of the time"
        );
        calm(&mut pacer, 2001);
        assert_eq!(flat(&mut pacer, 2001), TUNING.limit.sample_registered);
    }

    #[test]
    fn a_slow_program_leaves_the_least_headroom() {
        let mut pacer = Pacer::new(Bytes::gib(1), 1);
        let headroom = Bytes::mib(8);
        assert_eq!(pacer.headroom(), headroom, "1/128 of the limit");
        let start = Bytes::gib(1) - headroom;
        let plan = pacer.observe(ms(0), start);
        assert_eq!(plan.reclaim_to, None, "at the mark, not above it");
        assert_eq!(plan.hold_above, Bytes::gib(1) - Bytes::mib(2));
        let plan = pacer.observe(ms(1), start + Bytes(1));
        assert_eq!(plan.reclaim_to, Some(Bytes::gib(1) - Bytes::mib(12)));
    }

    #[test]
    fn a_small_limit_keeps_no_more_free_than_a_64th_or_a_batch() {
        let at = |mib| Pacer::new(Bytes::mib(mib), 2).headroom();
        assert_eq!(at(8), Bytes::kib(256));
        assert_eq!(at(32), Bytes::kib(512));
        assert_eq!([at(64), at(128)], [Bytes::mib(1); 2]);
    }

    #[test]
    fn headroom_follows_the_fastest_growth_and_forgets_it() {
        let mut pacer = Pacer::new(Bytes::gib(16), 4);
        pacer.observe(ms(0), Bytes::ZERO);
        pacer.observe(ms(100), Bytes(1_000_000_000));
        // 10 bytes/ns for 3 ms are 30 MB, below 1/128 of the limit.
        assert_eq!(pacer.headroom(), Bytes::mib(128));
        let mut pacer = Pacer::new(Bytes::gib(1), 4);
        pacer.observe(ms(0), Bytes::ZERO);
        pacer.observe(ms(10), Bytes(100_000_000));
        let burst = pacer.headroom();
        assert!((29_990_000..=30_000_000).contains(&burst.0), "{burst}");
        pacer.observe(ms(60), Bytes(100_000_000));
        let half = pacer.headroom();
        assert!((14_990_000..=15_010_000).contains(&half.0), "{half}");
        pacer.observe(ms(1000), Bytes(100_000_000));
        assert_eq!(pacer.headroom(), Bytes::mib(8));
    }

    #[test]
    fn samples_too_close_to_each_other_do_not_make_a_rate() {
        let mut pacer = Pacer::new(Bytes::gib(16), 1);
        pacer.observe(Nanos(0), Bytes::ZERO);
        pacer.observe(Nanos(10), Bytes::mib(2));
        assert_eq!(pacer.rate, 0);
        pacer.observe(ms(2), Bytes::mib(2));
        assert_eq!(
            grown(pacer.rate, ms(2)).0.div_ceil(1 << 12),
            Bytes::mib(2).0 >> 12
        );
        pacer.observe(ms(1), Bytes::gib(1));
        assert!(
            pacer.rate <= 3 << RATE_SHIFT,
            "time that runs backwards is no rate"
        );
    }

    #[test]
    fn the_marks_follow_a_limit_that_moves() {
        let mut pacer = Pacer::new(Bytes::gib(1), 1);
        assert!(pacer.observe(ms(0), Bytes::mib(800)).reclaim_to.is_none());
        pacer.set_limit(Bytes::mib(512));
        let plan = pacer.observe(ms(1), Bytes::mib(800));
        assert!(plan.reclaim_to.is_some_and(|to| to < Bytes::mib(512)));
        assert!(plan.hold_above <= Bytes::mib(512));
        pacer.set_limit(Bytes::gib(2));
        let plan = pacer.observe(ms(2), Bytes::mib(800));
        assert!(
            plan.arm && plan.reclaim_to.is_none(),
            "what is registered stays so"
        );
    }

    #[test]
    fn a_tiny_limit_still_has_an_order() {
        let mut pacer = Pacer::new(Bytes::mib(2), 16);
        let plan = pacer.observe(ms(0), Bytes::mib(2));
        assert_eq!(plan.hold_above, Bytes::mib(2) - Bytes::kib(64));
        assert_eq!(plan.reclaim_to, Some(Bytes::mib(2) - Bytes::kib(384)));
        let plan = Pacer::new(Bytes::ZERO, 1).observe(ms(0), Bytes::ZERO);
        assert!(plan.arm && plan.hold_above == Bytes::ZERO && plan.reclaim_to.is_none());
    }

    proptest! {
        /// A program that grows as fast as it can, whenever it can, is registered while
        /// three milliseconds of growth still fit below the limit.
        #[test]
        fn no_program_outruns_the_sampler(
            cpus in 1u32..64,
            spare in 0u64..1 << 36,
            bursts in prop::collection::vec(0u64..=3, 1..400),
        ) {
            let worst = TUNING.limit.fastest * u64::from(cpus);
            // Large enough for 25 % of the limit to be below the limit less 4 ms.
            let limit = Bytes(worst * TUNING.limit.register.0 * 4 / 3 + 4 + spare);
            let mut pacer = Pacer::new(limit, cpus);
            let (mut now, mut usage) = (Nanos::ZERO, Bytes::ZERO);
            for burst in bursts {
                let plan = pacer.observe(now, usage);
                if plan.arm {
                    prop_assert!(usage.0 + worst * ms(3).0 <= limit.0);
                    break;
                }
                now += plan.next_sample;
                usage += Bytes(worst / 3 * burst * plan.next_sample.0);
            }
        }

        /// The marks keep their order, whatever was seen.
        #[test]
        fn the_marks_keep_their_order(
            limit in 0u64..1 << 45,
            cpus in 0u32..256,
            samples in prop::collection::vec((0u64..1 << 28, 0u64..1 << 45), 1..50),
        ) {
            let mut pacer = Pacer::new(Bytes(limit), cpus);
            let (mut now, mut armed) = (Nanos::ZERO, false);
            for (pause, usage) in samples {
                now += Nanos(pause);
                let plan = pacer.observe(now, Bytes(usage));
                prop_assert!(plan.arm || !armed);
                armed = plan.arm;
                prop_assert!(armed || usage < pacer.arm_point().0);
                prop_assert!(plan.hold_above <= Bytes(limit));
                prop_assert!((TUNING.limit.sample..=TUNING.limit.sample_at_most).contains(&plan.next_sample));
                let in_time = Nanos(limit.saturating_sub(usage) / 4 / pacer.worst);
                let most = in_time.max(TUNING.limit.sample_registered);
                prop_assert!(!armed || plan.next_sample <= most);
                if let Some(to) = plan.reclaim_to {
                    prop_assert!(to < Bytes(usage) && to <= plan.hold_above);
                }
                prop_assert!(plan.reclaim_to.is_some() || usage <= plan.hold_above.0);
            }
        }
    }
}
