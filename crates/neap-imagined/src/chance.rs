//! What is left to chance, from a seed.

/// A sequence of numbers that a seed determines (splitmix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// True in so many of 1,000 cases.
    pub fn happens(&mut self, permille: u32) -> bool {
        permille > 0 && self.below(1000) < u64::from(permille)
    }
}

/// How often what may happen does, in 1,000 calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Odds {
    /// A call fails with EAGAIN though nothing changes (a lock of the kernel was not to be had).
    pub again: u32,
    /// A fill fails with ENOMEM.
    pub no_memory: u32,
    /// A call ends early, with what it has done so far.
    pub short: u32,
    /// The agent's answer is late.
    pub late: u32,
    /// A move is made and said not to have been (EEXIST): Linux 6.18 where a page changed hands at that moment.
    pub false_exists: u32,
}
