//! Parameters: every number an experiment stands on, and where it comes from.

use super::ExperimentFault;
use super::mail::Mail;
use super::range::Range;

/// Where a parameter's value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A mail states it; which, and in what words.
    Posted(&'static Mail, &'static str),
    /// It follows from what was posted; how.
    Derived(&'static str),
    /// The project measured it; where.
    Measured(&'static str),
    /// We chose it; why. It is swept.
    Chosen(&'static str),
}

impl Origin {
    /// In one word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Origin::Posted(..) => "posted",
            Origin::Derived(_) => "derived",
            Origin::Measured(_) => "measured here",
            Origin::Chosen(_) => "chosen",
        }
    }

    /// Words of the mail, or ours.
    #[must_use]
    pub fn text(&self) -> &'static str {
        match self {
            Origin::Posted(_, text)
            | Origin::Derived(text)
            | Origin::Measured(text)
            | Origin::Chosen(text) => text,
        }
    }

    /// The mail, if one states it.
    #[must_use]
    pub fn mail(&self) -> Option<&'static Mail> {
        match self {
            Origin::Posted(mail, _) => Some(mail),
            _ => None,
        }
    }
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// How it is called.
    pub key: &'static str,
    /// Its value unless set.
    pub default: &'static str,
    /// Its unit, empty for words.
    pub unit: &'static str,
    /// Where the value comes from.
    pub origin: Origin,
    /// The words it may be; empty for numbers.
    pub words: &'static [&'static str],
    /// Values to try in a sweep.
    pub sweep: &'static [&'static str],
}

impl Parameter {
    const fn of(
        key: &'static str,
        default: &'static str,
        unit: &'static str,
        origin: Origin,
        words: &'static [&'static str],
    ) -> Parameter {
        Parameter {
            key,
            default,
            unit,
            origin,
            words,
            sweep: words,
        }
    }

    /// A number that a mail states, and its words.
    #[must_use]
    pub const fn posted(
        key: &'static str,
        default: &'static str,
        unit: &'static str,
        mail: &'static Mail,
        words: &'static str,
    ) -> Parameter {
        Parameter::of(key, default, unit, Origin::Posted(mail, words), &[])
    }

    /// A number that follows from what was posted.
    #[must_use]
    pub const fn derived(
        key: &'static str,
        default: &'static str,
        unit: &'static str,
        how: &'static str,
    ) -> Parameter {
        Parameter::of(key, default, unit, Origin::Derived(how), &[])
    }

    /// A number that the project measured.
    #[must_use]
    pub const fn measured(
        key: &'static str,
        default: &'static str,
        unit: &'static str,
        how: &'static str,
    ) -> Parameter {
        Parameter::of(key, default, unit, Origin::Measured(how), &[])
    }

    /// A number we chose, with values to try in a sweep.
    #[must_use]
    pub const fn chosen(
        key: &'static str,
        default: &'static str,
        unit: &'static str,
        why: &'static str,
        sweep: &'static [&'static str],
    ) -> Parameter {
        Parameter {
            sweep,
            ..Parameter::of(key, default, unit, Origin::Chosen(why), &[])
        }
    }

    /// A word we chose, one of `words`.
    #[must_use]
    pub const fn word(
        key: &'static str,
        default: &'static str,
        why: &'static str,
        words: &'static [&'static str],
    ) -> Parameter {
        Parameter::of(key, default, "", Origin::Chosen(why), words)
    }

    /// A word that follows from what was posted, one of `words`.
    #[must_use]
    pub const fn derived_word(
        key: &'static str,
        default: &'static str,
        how: &'static str,
        words: &'static [&'static str],
    ) -> Parameter {
        Parameter::of(key, default, "", Origin::Derived(how), words)
    }

    /// A word that a mail states, one of `words`; its own words are `quoted`.
    #[must_use]
    pub const fn posted_word(
        key: &'static str,
        default: &'static str,
        mail: &'static Mail,
        quoted: &'static str,
        words: &'static [&'static str],
    ) -> Parameter {
        Parameter::of(key, default, "", Origin::Posted(mail, quoted), words)
    }

    fn range(&self) -> Range {
        Range::of(self.key, self.unit)
    }

    fn check(&self, value: &str) -> Result<(), ExperimentFault> {
        let fault = |wanted: String| ExperimentFault::Value {
            key: self.key.to_owned(),
            value: value.to_owned(),
            wanted,
        };
        if self.words.is_empty() {
            return match value.parse().is_ok_and(|n| self.range().holds(n)) {
                true => Ok(()),
                false => Err(fault(self.range().wanted(self.unit))),
            };
        }
        match self.words.contains(&value) {
            true => Ok(()),
            false => Err(fault(format!("one of {}", self.words.join(", ")))),
        }
    }
}

/// The parameters of an experiment with their values.
#[derive(Clone, Debug)]
pub struct Values {
    all: Vec<(&'static Parameter, String)>,
}

impl Values {
    /// The defaults, and what is set over them as `KEY=VALUE`.
    ///
    /// # Errors
    ///
    /// When a setting has no `=`, names no parameter, or gives a value it cannot have.
    pub fn new(
        experiment: &'static str,
        parameters: &'static [Parameter],
        sets: &[String],
    ) -> Result<Values, ExperimentFault> {
        let default = |parameter: &'static Parameter| (parameter, parameter.default.to_owned());
        let mut values = Values {
            all: parameters.iter().map(default).collect(),
        };
        for set in sets {
            let parts = set.split_once('=');
            let (key, value) = parts.ok_or_else(|| ExperimentFault::Setting(set.clone()))?;
            values.set(experiment, key.trim(), value.trim())?;
        }
        Ok(values)
    }

    /// Sets one.
    ///
    /// # Errors
    ///
    /// As [`Values::new`].
    pub fn set(
        &mut self,
        experiment: &'static str,
        key: &str,
        value: &str,
    ) -> Result<(), ExperimentFault> {
        // Every experiment has the kernel's costs, which are many: those that are set are shown.
        if let Some(cost) = super::cost::find(key).filter(|_| !self.has(key)) {
            self.all.push((cost, cost.default.to_owned()));
        }
        let known = || {
            let own = self.all.iter().map(|(parameter, _)| parameter.key);
            let keys: Vec<&str> = if key.starts_with(super::cost::PREFIX) {
                super::cost::COSTS.iter().map(|cost| cost.key).collect()
            } else {
                own.collect()
            };
            keys.join(", ")
        };
        let at = self
            .all
            .iter()
            .position(|(parameter, _)| parameter.key == key);
        let at = at.ok_or_else(|| ExperimentFault::Key {
            experiment,
            key: key.to_owned(),
            known: known(),
        })?;
        self.all[at].0.check(value)?;
        value.clone_into(&mut self.all[at].1);
        Ok(())
    }

    /// Every parameter with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Parameter, &str)> {
        self.all
            .iter()
            .map(|(parameter, value)| (*parameter, value.as_str()))
    }

    /// Whether the experiment has a parameter `key`.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.all.iter().any(|(parameter, _)| parameter.key == key)
    }

    /// The word of `key`; empty when the experiment has no such parameter.
    #[must_use]
    pub fn word(&self, key: &str) -> &str {
        let found = self.all.iter().find(|(parameter, _)| parameter.key == key);
        debug_assert!(found.is_some(), "no parameter {key}");
        found.map_or("", |(_, value)| value)
    }

    /// The number of `key`; 0 when the experiment has no such parameter.
    #[must_use]
    pub fn number(&self, key: &str) -> f64 {
        self.word(key).parse().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: &[Parameter] = &[
        Parameter::derived("limit", "2048", "MiB", "from 2 GB"),
        Parameter::word("device", "ssd", "not stated", &["ssd", "zram"]),
    ];

    #[test]
    fn settings_replace_defaults() {
        let values = Values::new("x", SOME, &["device=zram".into()]).unwrap();
        assert_eq!(
            (values.number("limit"), values.word("device")),
            (2048.0, "zram")
        );
    }

    /// A page that the authors of the mails would sign leaves nothing of ours untried.
    #[test]
    fn what_was_chosen_is_swept_and_what_was_posted_is_quoted() {
        let costs = crate::experiment::cost::COSTS;
        let all = crate::experiment::EXPERIMENTS.iter();
        let all = all.flat_map(|experiment| experiment.parameters.iter().chain(costs));
        for parameter in all {
            let Parameter { key, sweep, .. } = parameter;
            match parameter.origin {
                Origin::Chosen(_) => {
                    let other = sweep.iter().any(|value| *value != parameter.default);
                    assert!(other, "{key} is chosen and not swept");
                }
                Origin::Posted(mail, words) => assert!(
                    mail.id.contains('@') && !words.is_empty(),
                    "{key} is posted nowhere"
                ),
                Origin::Derived(how) | Origin::Measured(how) => assert!(!how.is_empty(), "{key}"),
            }
        }
    }

    #[test]
    fn every_default_and_every_value_to_try_is_allowed() {
        for experiment in crate::experiment::EXPERIMENTS {
            for parameter in experiment.parameters {
                for value in [parameter.default].iter().chain(parameter.sweep) {
                    assert_eq!(parameter.check(value), Ok(()), "{}", experiment.name);
                }
            }
        }
    }

    #[test]
    fn a_wrong_setting_says_what_to_write() {
        let fault = |set: &str| {
            Values::new("x", SOME, &[set.into()])
                .unwrap_err()
                .to_string()
        };
        assert_eq!(fault("device=tape"), "device=tape: write one of ssd, zram");
        let sizes = "a number of MiB from 1 to 1048576";
        for wrong in ["-1", "0", "nan", "inf", "1e30"] {
            let set = format!("limit={wrong}");
            assert_eq!(fault(&set), format!("{set}: write {sizes}"));
        }
        assert_eq!(
            fault("speed=1"),
            "x has no parameter \"speed\": it has limit, device"
        );
        assert_eq!(
            fault("limits=1"),
            "x has no parameter \"limits\": did you mean limit? it has limit, device"
        );
        let cost = fault("cost.scna=1");
        let meant = "x has no parameter \"cost.scna\": did you mean cost.scan? it has cost.hit, ";
        assert!(cost.starts_with(meant), "{cost}");
        assert_eq!(fault("speed"), "\"speed\" is not KEY=VALUE");
    }
}
