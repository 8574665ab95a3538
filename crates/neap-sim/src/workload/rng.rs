//! The one source of randomness: PCG XSL RR 128/64 (MCG), whose values are the same on every machine
//! and in every version. Streams are named, so that one more draw in one task moves no other task.

/// Multiplier of the 128-bit congruential generator (O'Neill, "PCG", table of PCG64 MCG).
const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u128,
}

/// One step of splitmix64: spreads the bits of a seed.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream called `stream` of a run with `seed`.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Rng {
        let mut mix = seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95).rotate_left(23);
        let high = splitmix(&mut mix);
        let low = splitmix(&mut mix);
        // A multiplicative generator needs an odd state.
        Rng {
            state: (u128::from(high) << 64) | u128::from(low) | 1,
        }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(MULTIPLIER);
        let folded = ((self.state >> 64) ^ self.state) as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// A number below `n` (0 when `n` is 0), by multiplication: the bias is below 2^-32 for any `n` a
    /// simulation has.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// A number in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p`.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// A number between `low` and `high`, both included.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }
}

/// Zipf over `0..n` with exponent `s`, by rejection-inversion (Hörmann and Derflinger 1996): constant
/// time and no table, so that a terabyte of pages costs nothing.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: f64,
    s: f64,
    low: f64,
    high: f64,
    squeeze: f64,
}

impl Zipf {
    /// `n` items (at least one), exponent `s` (at least 0).
    #[must_use]
    pub fn new(n: u64, s: f64) -> Zipf {
        let n = n.max(1) as f64;
        let s = s.max(0.0);
        let mut zipf = Zipf {
            n,
            s,
            low: 0.0,
            high: 0.0,
            squeeze: 0.0,
        };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(n + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, x: f64) -> f64 {
        (-self.s * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.s) * log;
        let ratio = if t.abs() > 1e-8 {
            t.exp_m1() / t
        } else {
            1.0 + t / 2.0
        };
        ratio * log
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.s)).max(-1.0);
        let ratio = if t.abs() > 1e-8 {
            t.ln_1p() / t
        } else {
            1.0 - t / 2.0
        };
        (ratio * y).exp()
    }

    /// One draw; item 0 is the most frequent.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.high + rng.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.squeeze || u >= self.integral(k + 0.5) - self.density(k) {
                return k as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_for_ever() {
        let mut rng = Rng::new(1, 0);
        let first = [rng.bits(), rng.bits(), rng.bits()];
        let mut again = Rng::new(1, 0);
        assert_eq!(first, [again.bits(), again.bits(), again.bits()]);
        assert_ne!(first[0], Rng::new(1, 1).bits());
        assert_ne!(first[0], Rng::new(2, 0).bits());
    }

    #[test]
    fn draws_stay_in_range_and_spread() {
        let mut rng = Rng::new(7, 3);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[rng.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (900..1100).contains(&n)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        assert!((5..=6).contains(&rng.between(5, 6)));
    }

    #[test]
    fn zipf_follows_its_law() {
        let zipf = Zipf::new(1000, 1.0);
        let mut rng = Rng::new(1, 9);
        let mut seen = vec![0u32; 1000];
        for _ in 0..100_000 {
            seen[zipf.draw(&mut rng) as usize] += 1;
        }
        // H(1000) = 7.485: item 0 has 13.4 %, item 1 half of it.
        assert!((12_500..14_200).contains(&seen[0]), "{}", seen[0]);
        assert!((6_200..7_200).contains(&seen[1]), "{}", seen[1]);
        let flat = Zipf::new(4, 0.0);
        let ones = (0..4000).filter(|_| flat.draw(&mut rng) == 3).count();
        assert!((850..1150).contains(&ones), "{ones}");
    }
}
