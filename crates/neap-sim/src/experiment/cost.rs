//! What the simulated kernel's work costs, as parameters that every experiment has: shown where they are set.

use neap_units::Nanos;

use super::{Parameter, Setup};
use crate::kernel::Costs;

/// How the keys of costs begin.
pub(super) const PREFIX: &str = "cost.";

/// Values to try are half and twice the default.
const fn cost(
    key: &'static str,
    default: &'static str,
    why: &'static str,
    sweep: &'static [&'static str],
) -> Parameter {
    Parameter::chosen(key, default, "ns", why, sweep)
}

/// The costs, with the defaults of [`Costs`].
pub(super) const COSTS: &[Parameter] = &[
    cost("cost.hit", "2", "a touch of a present page", &["1", "4"]),
    cost(
        "cost.fault",
        "500",
        "entry, page table and exit",
        &["250", "1000"],
    ),
    cost(
        "cost.clear",
        "250",
        "clearing a page at 16 GB/s",
        &["125", "500"],
    ),
    cost(
        "cost.scan",
        "1000",
        "a look at a folio on a list: ten cache misses",
        &["500", "2000"],
    ),
    cost(
        "cost.unmap",
        "2000",
        "with io the upper end of what SPEC 7.2 derives for writes: 2.4 to 6 us a page",
        &["1000", "4000"],
    ),
    cost("cost.walk_word", "100", "aging: 64 entries", &["50", "200"]),
    cost(
        "cost.promote",
        "100",
        "aging: a young folio",
        &["50", "200"],
    ),
    cost("cost.visit", "500", "a visit of a cgroup", &["250", "1000"]),
    cost("cost.io", "3000", "see unmap", &["1500", "6000"]),
    cost(
        "cost.wake",
        "20000",
        "waking a kernel thread",
        &["10000", "40000"],
    ),
    cost(
        "cost.slice",
        "50000",
        "until a kernel entry lets others run",
        &["25000", "100000"],
    ),
];

/// The cost of this key.
pub(super) fn find(key: &str) -> Option<&'static Parameter> {
    COSTS.iter().find(|cost| cost.key == key)
}

/// The costs of a run: the usual ones, but for those that are set.
pub(super) fn costs(setup: &Setup<'_>) -> Costs {
    let mut costs = Costs::default();
    for (parameter, value) in setup.values.iter() {
        let Some(name) = parameter.key.strip_prefix(PREFIX) else {
            continue;
        };
        let value = Nanos(value.parse::<f64>().unwrap_or(0.0) as u64);
        if let Some(cost) = named(&mut costs, name) {
            *cost = value;
        }
    }
    costs
}

fn named<'a>(costs: &'a mut Costs, name: &str) -> Option<&'a mut Nanos> {
    Some(match name {
        "hit" => &mut costs.hit,
        "fault" => &mut costs.fault,
        "clear" => &mut costs.clear,
        "scan" => &mut costs.scan,
        "unmap" => &mut costs.unmap,
        "walk_word" => &mut costs.walk_word,
        "promote" => &mut costs.promote,
        "visit" => &mut costs.visit,
        "io" => &mut costs.io,
        "wake" => &mut costs.wake,
        "slice" => &mut costs.slice,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Values;
    use super::*;

    fn of(sets: &[String]) -> Costs {
        let values = Values::new("x", &[], sets).unwrap();
        costs(&Setup {
            config: "",
            seed: 1,
            scale: 1.0,
            values: &values,
        })
    }

    #[test]
    fn every_cost_is_a_parameter_with_its_default() {
        let all: Vec<String> = COSTS
            .iter()
            .map(|cost| format!("{}={}", cost.key, cost.default))
            .collect();
        assert_eq!(of(&all), Costs::default());
        let twice: Vec<String> = COSTS
            .iter()
            .map(|cost| format!("{}={}", cost.key, cost.sweep[1]))
            .collect();
        let twice = of(&twice);
        assert_eq!((twice.hit, twice.slice), (Nanos(4), Nanos(100_000)));
        assert_ne!(twice.scan, Costs::default().scan);
    }

    #[test]
    fn a_cost_that_is_none_is_refused() {
        let fault = Values::new("x", &[], &["cost.air=1".to_owned()]).unwrap_err();
        assert!(fault.to_string().contains("no parameter \"cost.air\""));
    }
}
