//! Seeded access patterns, the same natively and simulated.

use neap_sim::Nanos;
use rand_core::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64;

/// One part in so many accesses writes.
const WRITES: u64 = 4;

/// Time a program spends between two accesses.
pub const THINK: Nanos = Nanos(200);

/// A way of going over pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// From the first to the last, round and round.
    Sequential,
    /// Uniformly at random.
    Random,
    /// Zipf with exponent 0.99, popular pages scattered.
    Zipf,
    /// Nine in ten accesses go to a tenth of the pages.
    HotCold,
    /// Uniformly within a quarter, which moves on after an eighth of the accesses.
    Phases,
}

impl Pattern {
    /// All of them with their names.
    pub const ALL: [(Pattern, &'static str); 5] = [
        (Pattern::Sequential, "sequential"),
        (Pattern::Random, "random"),
        (Pattern::Zipf, "zipf"),
        (Pattern::HotCold, "hot-cold"),
        (Pattern::Phases, "phases"),
    ];

    /// The pattern of a name.
    pub fn named(name: &str) -> Option<Pattern> {
        let found = Pattern::ALL.iter().find(|(_, other)| *other == name);
        found.map(|(pattern, _)| *pattern)
    }
}

/// The accesses of one run: page, and whether it is written.
pub struct Stream {
    pattern: Pattern,
    pages: u64,
    accesses: u64,
    at: u64,
    rng: Pcg64,
    zipf: Zipf<f64>,
}

impl Stream {
    /// `accesses` accesses to `pages` pages.
    pub fn new(pattern: Pattern, pages: u64, accesses: u64, seed: u64) -> Stream {
        Stream {
            pattern,
            pages,
            accesses,
            at: 0,
            rng: Pcg64::seed_from_u64(seed),
            zipf: Zipf::new(pages as f64, 0.99).expect("a number of pages"),
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.rng.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Scatters page numbers: a bijection, because the factor is prime and no divisor of
    /// a number of pages in use.
    fn scatter(&self, page: u64) -> u64 {
        (page * 2_654_435_761) % self.pages
    }
}

impl Iterator for Stream {
    type Item = (u64, bool);

    fn next(&mut self) -> Option<(u64, bool)> {
        if self.at == self.accesses {
            return None;
        }
        let at = self.at;
        self.at += 1;
        let page = match self.pattern {
            Pattern::Sequential => at % self.pages,
            Pattern::Random => self.below(self.pages),
            Pattern::Zipf => {
                let rank = self.zipf.sample(&mut self.rng) as u64 - 1;
                self.scatter(rank.min(self.pages - 1))
            }
            Pattern::HotCold => {
                let hot = self.below(10) < 9;
                let (first, n) = match (hot, self.pages / 10) {
                    (true, tenth) => (0, tenth),
                    (false, tenth) => (tenth, self.pages - tenth),
                };
                let page = first + self.below(n);
                self.scatter(page)
            }
            Pattern::Phases => {
                let phase = at * 8 / self.accesses;
                let quarter = self.pages / 4;
                (phase * quarter / 2 + self.below(quarter)) % self.pages
            }
        };
        let write = self.below(WRITES) == 0;
        Some((page, write))
    }
}
