//! Which page comes next.

use super::rng::{Rng, Zipf};

/// How an area is touched.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pattern {
    /// Page after page, and again from the start.
    Sequential,
    /// Uniformly at random.
    Random,
    /// At random, but each page once before any comes again, as fio does unless it is told `norandommap`.
    Shuffled,
    /// By Zipf's law with this exponent; popular pages lie scattered.
    Zipf(f64),
    /// A share of the pages gets a share of the touches, both parts uniformly.
    HotCold {
        /// Share of pages that are hot, 0..=1.
        pages: f64,
        /// Share of touches that go there, 0..=1.
        touches: f64,
    },
    /// For so many touches uniformly within a window of the area, then in another window.
    Phases {
        /// Share of the pages in a window, 0..=1.
        pages: f64,
        /// Touches before the window moves on.
        touches: u64,
    },
}

/// A pattern going over an area.
#[derive(Clone, Debug)]
pub struct Walker {
    pattern: Pattern,
    pages: u64,
    zipf: Zipf,
    /// Popular ranks are spread by this factor, which shares no divisor with `pages`.
    scatter: u64,
    /// Sequential: the next page. Shuffled: the next in order. Phases: touches in this window.
    at: u64,
    /// This order of all pages.
    order: Order,
    /// First page of the window of phases.
    window: u64,
}

impl Walker {
    /// Over `pages` pages (at least one).
    #[must_use]
    pub fn new(pattern: Pattern, pages: u64) -> Walker {
        let pages = pages.max(1);
        let exponent = match pattern {
            Pattern::Zipf(exponent) => exponent,
            _ => 1.0,
        };
        Walker {
            pattern,
            pages,
            zipf: Zipf::new(pages, exponent),
            scatter: scatter(pages),
            at: 0,
            order: Order::default(),
            window: 0,
        }
    }

    /// The next page, counted from the area's first.
    #[inline]
    pub fn next(&mut self, rng: &mut Rng) -> u64 {
        match self.pattern {
            Pattern::Sequential => {
                let page = self.at;
                self.at = if page + 1 == self.pages { 0 } else { page + 1 };
                page
            }
            Pattern::Random => rng.below(self.pages),
            Pattern::Shuffled => {
                if self.at == 0 {
                    self.order = Order::drawn(self.pages, rng);
                }
                let page = self.order.page(self.at, self.pages);
                self.at = (self.at + 1) % self.pages;
                page
            }
            Pattern::Zipf(_) => {
                let rank = u128::from(self.zipf.draw(rng));
                (rank * u128::from(self.scatter) % u128::from(self.pages)) as u64
            }
            Pattern::HotCold { pages, touches } => {
                let hot = ((self.pages as f64 * pages) as u64).clamp(1, self.pages);
                if hot == self.pages || rng.chance(touches) {
                    rng.below(hot)
                } else {
                    hot + rng.below(self.pages - hot)
                }
            }
            Pattern::Phases { pages, touches } => {
                let window = ((self.pages as f64 * pages) as u64).clamp(1, self.pages);
                self.at += 1;
                if self.at > touches.max(1) {
                    self.at = 1;
                    self.window = rng.below(self.pages - window + 1);
                }
                self.window + rng.below(window)
            }
        }
    }
}

/// An order of all pages, which takes no memory for them: a Feistel network over the smallest square of a power of
/// two that holds them, gone through again where it leads outside.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    keys: [u64; 4],
    /// Bits of one half.
    half: u32,
}

impl Order {
    fn drawn(pages: u64, rng: &mut Rng) -> Order {
        Order {
            keys: std::array::from_fn(|_| rng.bits()),
            half: (u64::BITS - (pages - 1).leading_zeros()).div_ceil(2).max(1),
        }
    }

    fn page(&self, mut at: u64, pages: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        loop {
            for key in self.keys {
                let (left, right) = (at >> self.half, at & mask);
                let mixed = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                at = right << self.half | (left ^ mixed >> 40) & mask;
            }
            if at < pages {
                return at;
            }
        }
    }
}

/// A factor near the golden section of `pages` without a common divisor.
fn scatter(pages: u64) -> u64 {
    let divides = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a != 1
    };
    let mut factor = (pages as f64 * 0.618) as u64 | 1;
    while factor > 1 && divides(factor, pages) {
        factor += 2;
    }
    factor.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_stays_in_its_area() {
        let patterns = [
            Pattern::Sequential,
            Pattern::Random,
            Pattern::Shuffled,
            Pattern::Zipf(1.1),
            Pattern::HotCold {
                pages: 0.1,
                touches: 0.9,
            },
            Pattern::Phases {
                pages: 0.2,
                touches: 10,
            },
        ];
        let mut rng = Rng::new(1, 1);
        for pattern in patterns {
            for pages in [1, 2, 30, 997] {
                let mut walker = Walker::new(pattern, pages);
                assert!(
                    (0..2000).all(|_| walker.next(&mut rng) < pages),
                    "{pattern:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_shuffled_comes_once_in_each_round() {
        let mut rng = Rng::new(3, 1);
        for pages in [1u64, 2, 3, 30, 997, 4096] {
            let mut walker = Walker::new(Pattern::Shuffled, pages);
            let mut round = || -> Vec<u64> { (0..pages).map(|_| walker.next(&mut rng)).collect() };
            let (first, second) = (round(), round());
            for round in [&first, &second] {
                let mut sorted = round.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..pages), "{pages} pages");
            }
            // Neither in order nor as before; a run of a few pages is what chance leaves.
            let steps = first.windows(2).filter(|two| two[1] == two[0] + 1).count();
            let same = first.iter().zip(&second).filter(|(a, b)| a == b).count();
            assert!(
                pages < 100 || steps < 8 && same < 8,
                "{pages} pages: {steps}, {same}"
            );
        }
    }

    #[test]
    fn hot_pages_get_their_share() {
        let mut walker = Walker::new(
            Pattern::HotCold {
                pages: 0.1,
                touches: 0.9,
            },
            1000,
        );
        let mut rng = Rng::new(2, 1);
        let hot = (0..10_000).filter(|_| walker.next(&mut rng) < 100).count();
        assert!((8_900..9_100).contains(&hot), "{hot}");
    }

    #[test]
    fn scattered_ranks_are_still_all_pages() {
        for pages in [10u64, 96, 1024] {
            let factor = scatter(pages);
            let mut seen: Vec<u64> = (0..pages).map(|rank| rank * factor % pages).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..pages));
        }
    }
}
