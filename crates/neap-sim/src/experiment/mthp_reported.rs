//! The sixth posting's tables.

use super::Reported;
use super::build::reported;

/// Reported numbers: of each configuration in the order of the seed's tables.
macro_rules! table {
    ($($config:literal: $throughput:literal $sys:literal $high:literal $swap_high:literal $fail:literal
        $pswpin:literal $pswpout:literal $zswpin:literal $zswpout:literal
        $thp:literal $fallback:literal $major:literal,)+
     $(folios $metric:literal: $of:literal $folios:literal,)+) => {
        &[$(reported($metric, $of, $folios),)+ $(
            reported("throughput", $config, $throughput),
            reported("sys_seconds", $config, $sys),
            reported("memcg_high", $config, $high),
            reported("memcg_swap_high", $config, $swap_high),
            reported("memcg_swap_fail", $config, $fail),
            reported("pswpin", $config, $pswpin),
            reported("pswpout", $config, $pswpout),
            reported("zswpin", $config, $zswpin),
            reported("zswpout", $config, $zswpout),
            reported("thp_swpout", $config, $thp),
            reported("thp_swpout_fallback", $config, $fallback),
            reported("pgmajfault", $config, $major),
        )+]
    };
}

pub(super) const REPORTED: &[Reported] = table!(
    "4K/before/zstd": 110_775.0 1141.72 140_500.0 0.0 0.0 0.0 0.0 675.0 9_552_298.0 0.0 0.0 3_453.0,
    "4K/before/iaa": 113_010.0 954.87 153_737.0 0.0 0.0 0.0 0.0 690.0 10_603_271.0 0.0 0.0 3_468.0,
    "4K/after/zstd": 111_550.0 1131.95 139_772.0 0.0 0.0 0.0 0.0 682.0 9_566_392.0 0.0 0.0 3_841.0,
    "4K/after/iaa": 121_937.0 828.47 134_129.0 0.0 0.0 0.0 0.0 684.0 9_267_213.0 0.0 0.0 3_487.0,
    "64K/case1-before/zstd": 136_113.0 986.78 124_183.0 0.0 619_020.0 0.0 0.0 656.0 9_413_603.0 0.0 0.0 3_470.0,
    "64K/case1-before/iaa": 140_044.0 951.95 127_513.0 0.0 751_099.0 0.0 0.0 569.0 11_284_812.0 0.0 0.0 3_382.0,
    "64K/case2-before/zstd": 161_496.0 771.68 111_223.0 0.0 0.0 16.0 7_471_472.0 635.0 1_509.0 0.0 0.0 3_616.0,
    "64K/case2-before/iaa": 156_343.0 802.08 110_889.0 0.0 0.0 16.0 7_527_963.0 605.0 1_478.0 0.0 0.0 3_430.0,
    "64K/after/zstd": 140_363.0 954.85 138_651.0 0.0 0.0 0.0 0.0 624.0 9_453_761.0 0.0 0.0 4_633.0,
    "64K/after/iaa": 151_938.0 735.47 133_884.0 0.0 0.0 0.0 0.0 639.0 9_385_910.0 0.0 0.0 3_611.0,
    "2M/case1-before/zstd": 164_220.0 855.76 14_628.0 0.0 18_698.0 0.0 0.0 663.0 8_419_458.0 0.0 18_697.0 3_439.0,
    "2M/case1-before/iaa": 172_523.0 686.94 16_247.0 0.0 21_114.0 0.0 0.0 665.0 8_992_065.0 0.0 21_113.0 3_496.0,
    "2M/case2-before/zstd": 192_164.0 823.55 16_054.0 0.0 0.0 0.0 8_629_248.0 560.0 1_416.0 16_854.0 0.0 3_341.0,
    "2M/case2-before/iaa": 194_643.0 830.42 15_936.0 0.0 0.0 0.0 8_628_907.0 645.0 1_503.0 16_853.0 0.0 3_574.0,
    "2M/after/zstd": 165_005.0 801.72 14_951.0 0.0 0.0 0.0 0.0 5_333.0 8_546_895.0 0.0 0.0 8_139.0,
    "2M/after/iaa": 174_536.0 676.65 16_096.0 0.0 0.0 0.0 0.0 781.0 9_355_760.0 0.0 0.0 3_582.0,
    folios "zswpout_folios": "64K/after/zstd" 590_768.0,
    folios "zswpout_folios": "64K/after/iaa" 586_521.0,
    folios "zswpout_folios": "2M/after/zstd" 16_684.0,
    folios "zswpout_folios": "2M/after/iaa" 18_270.0,
    folios "swpout_folios": "64K/case1-before/zstd" 0.0,
    folios "swpout_folios": "64K/case1-before/iaa" 0.0,
    folios "swpout_folios": "64K/case2-before/zstd" 466_967.0,
    folios "swpout_folios": "64K/case2-before/iaa" 470_498.0,
    folios "swpout_folios": "64K/after/zstd" 0.0,
    folios "swpout_folios": "64K/after/iaa" 0.0,
    folios "swpout_folios": "2M/case1-before/zstd" 0.0,
    folios "swpout_folios": "2M/case1-before/iaa" 0.0,
    folios "swpout_folios": "2M/case2-before/zstd" 16_854.0,
    folios "swpout_folios": "2M/case2-before/iaa" 16_853.0,
    folios "swpout_folios": "2M/after/zstd" 0.0,
    folios "swpout_folios": "2M/after/iaa" 0.0,
);
