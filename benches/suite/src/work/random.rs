//! Randomness that is the same on every machine and in every version.

/// splitmix64 (Steele, Lea and Flood 2014): small, fast, and fixed for ever.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `n`, which is at most 2^32: the high half of a product, nearly without bias.
    pub fn below(&mut self, n: usize) -> usize {
        let high = u128::from(self.bits()) * n as u128;
        (high >> 64) as usize
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Ranks by Zipf's law, by the method of Gray et al. ("Quickly generating billion-record synthetic
/// databases", 1994), as YCSB draws them.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: f64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Over `n` ranks with exponent `theta` below 1.
    #[must_use]
    pub fn new(n: usize, theta: f64) -> Self {
        let zeta_of = |n: usize| (1..=n).map(|i| (i as f64).powf(-theta)).sum::<f64>();
        let zeta = zeta_of(n);
        let two = (2.0 / n as f64).powf(1.0 - theta);
        Self {
            n: n as f64,
            theta,
            alpha: 1.0 / (1.0 - theta),
            zeta,
            eta: (1.0 - two) / (1.0 - zeta_of(2) / zeta),
        }
    }

    /// A rank from 0; the lower, the more often.
    pub fn rank(&self, random: &mut Random) -> usize {
        let u = random.unit();
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let rank = self.n * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        rank.min(self.n - 1.0) as usize
    }
}

/// An order of `0..n` that has nothing to do with the numbers (Fisher and Yates).
#[must_use]
pub fn shuffled(n: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut all: Vec<u32> = (0..u32::try_from(n).unwrap_or(u32::MAX)).collect();
    for i in (1..all.len()).rev() {
        all.swap(i, random.below(i + 1));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn few_ranks_take_most_draws() {
        let (zipf, mut random) = (Zipf::new(10_000, 0.99), Random::new(1));
        let draws: Vec<usize> = (0..100_000).map(|_| zipf.rank(&mut random)).collect();
        let top = draws.iter().filter(|rank| **rank < 1000).count();
        assert!((70_000..80_000).contains(&top), "{top}");
        assert!(draws.iter().all(|rank| *rank < 10_000));
    }

    #[test]
    fn a_shuffle_keeps_every_number() {
        let mut all = shuffled(1000, 3);
        assert_ne!(all[..4], [0, 1, 2, 3]);
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..1000));
    }
}
