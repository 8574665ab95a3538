//! Pages on their way back from swap: which neighbours come with them, and which count
//! for the shrinker of zswap (SPEC 2).

mod cluster;
mod copies;
mod count;
mod fresh;
mod stride;
mod vma;
mod walk;

pub use cluster::ClusterReadahead;
pub use copies::Copies;
pub use count::{Source, Swapin};
pub use fresh::FreshRuns;
pub use stride::Stride;
pub use vma::{Readahead, window};
pub use walk::WalkReadahead;

/// How a fault that missed the swap cache reads its page (SPEC 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwapinPath {
    /// That page alone, past the swap cache.
    Direct,
    /// With neighbours in the mapping.
    Vma,
    /// With neighbours on the device.
    Cluster,
}

impl SwapinPath {
    /// The path of a fault.
    ///
    /// * `synchronous`: the device finishes within the call (zram, a RAM disk).
    /// * `sole_user`: nobody else refers to the slot.
    /// * `vma_readahead`: it is not switched off (kernel: vma_ra_enabled).
    /// * `any_rotating`: a swap device of the machine rotates.
    #[must_use]
    pub const fn of_fault(
        synchronous: bool,
        sole_user: bool,
        vma_readahead: bool,
        any_rotating: bool,
    ) -> SwapinPath {
        if synchronous && sole_user {
            SwapinPath::Direct
        } else if vma_readahead && !any_rotating {
            SwapinPath::Vma
        } else {
            SwapinPath::Cluster
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_synchronous_device_with_one_user_reads_a_page_alone() {
        let path = SwapinPath::of_fault;
        assert_eq!(path(true, true, true, true), SwapinPath::Direct);
        assert_eq!(path(true, false, true, false), SwapinPath::Vma);
        assert_eq!(path(false, true, true, true), SwapinPath::Cluster);
        assert_eq!(path(false, true, false, false), SwapinPath::Cluster);
    }
}
