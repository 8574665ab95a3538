//! Hints, each where it acts.

use neap_policy::{Counter, Switches};

use super::tests::finish;
use super::*;

fn touch_all(
    kernel: &mut Kernel,
    space: SpaceId,
    start: PageNr,
    pages: u64,
    mut now: Nanos,
) -> Nanos {
    for at in 0..pages {
        let page = start + Pages(at);
        if !kernel.hit(space, page, false) {
            let write = false;
            now = finish(kernel, Op::Touch { space, page, write }, now).1;
            kernel.hit(space, page, false);
        }
    }
    now
}

/// What a mapping touched counts when the mapping goes, and the second time makes the page active.
#[test]
fn a_mapping_that_goes_leaves_its_touches_unless_a_hint_forbids() {
    let activated = |advice| {
        let config = KernelConfig {
            switches: Switches::of_kernel((6, 3), false),
            ..KernelConfig::default()
        };
        let mut kernel = Kernel::new(&config);
        let memcg = kernel.create_memcg(MemcgId::ROOT, "reader");
        let file = kernel.create_file(Pages(100));
        let mut now = Nanos::ZERO;
        for _ in 0..3 {
            let space = kernel.create_space(memcg);
            let area = Area {
                advice,
                ..Area::file(file, Pages(100))
            };
            let start = kernel.map(space, area);
            now = touch_all(&mut kernel, space, start, 100, now);
            kernel.drain();
            kernel.exit_space(space);
            kernel.drain();
        }
        kernel.vmstat(MemcgId::ROOT)[Counter::Pgactivate]
    };
    assert_eq!(activated(Advice::Normal), 100);
    for advice in [Advice::Random, Advice::NoReuse, Advice::Sequential] {
        assert_eq!(activated(advice), 0, "{advice:?}");
    }
}

/// Pages of a file that came before 3,000 pages of another, and are still there.
fn left_of_a_file(advice: Advice) -> usize {
    let config = KernelConfig {
        switches: Switches::of_kernel((6, 3), true),
        ..KernelConfig::default()
    };
    let mut kernel = Kernel::new(&config);
    let memcg = kernel.create_memcg(MemcgId::ROOT, "reader");
    let limits = Limits {
        max: Some(Pages(1000)),
        ..Limits::default()
    };
    kernel.set_limits(memcg, limits);
    let space = kernel.create_space(memcg);
    let (kept, stream) = (
        kernel.create_file(Pages(500)),
        kernel.create_file(Pages(3000)),
    );
    let area = Area {
        advice,
        ..Area::file(stream, Pages(3000))
    };
    let (first, second) = (
        kernel.map(space, Area::file(kept, Pages(500))),
        kernel.map(space, area),
    );
    let now = touch_all(&mut kernel, space, first, 500, Nanos::ZERO);
    touch_all(&mut kernel, space, second, 3000, now);
    (0..500)
        .filter(|&at| kernel.hit(space, first + Pages(at), false))
        .count()
}

/// A page that is faulted in begins in the youngest generation, unless a hint says that it is not used again.
#[test]
fn a_stream_with_a_hint_pushes_nothing_out_that_came_before() {
    let without = left_of_a_file(Advice::Normal);
    assert!(without < 250, "{without}");
    for advice in [Advice::Random, Advice::NoReuse, Advice::Sequential] {
        assert_eq!(left_of_a_file(advice), 500, "{advice:?}");
    }
}
