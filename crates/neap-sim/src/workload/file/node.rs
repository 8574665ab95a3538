//! A table of a workload file, read key by key.

use std::cell::RefCell;
use std::collections::BTreeSet;

use neap_units::{Bytes, Nanos, Size, parse_size};
use toml::{Table, Value};

use super::{WorkloadFault, parse_duration};
use crate::nearest::nearest;

/// A table, where it is, and which keys were asked for.
pub(super) struct Node<'a> {
    path: String,
    table: &'a Table,
    asked: RefCell<BTreeSet<&'static str>>,
}

type Found<T> = Result<T, WorkloadFault>;

impl<'a> Node<'a> {
    pub(super) fn new(path: &str, table: &'a Table) -> Node<'a> {
        Node {
            path: path.to_owned(),
            table,
            asked: RefCell::default(),
        }
    }

    /// How a key is called in messages.
    pub(super) fn name(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// A fault of one key.
    pub(super) fn fault(&self, key: &str, what: &str) -> WorkloadFault {
        WorkloadFault(format!("{}: {what}", self.name(key)))
    }

    fn get(&self, key: &'static str) -> Option<&'a Value> {
        self.asked.borrow_mut().insert(key);
        self.table.get(key)
    }

    /// Text, if the key is there.
    pub(super) fn text(&self, key: &'static str) -> Found<Option<String>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.fault(key, "write text in quotes")),
        }
    }

    /// A whole number.
    pub(super) fn whole(&self, key: &'static str, default: u64) -> Found<u64> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Integer(n)) if *n >= 0 => Ok(*n as u64),
            Some(_) => Err(self.fault(key, "write a whole number from 0 on")),
        }
    }

    /// A whole number within bounds.
    pub(super) fn within(
        &self,
        key: &'static str,
        default: u64,
        low: u64,
        high: u64,
    ) -> Found<u64> {
        let value = self.whole(key, default)?;
        match (low..=high).contains(&value) {
            true => Ok(value),
            false => Err(self.fault(key, &format!("write a whole number from {low} to {high}"))),
        }
    }

    /// A number within bounds.
    pub(super) fn number(
        &self,
        key: &'static str,
        default: f64,
        low: f64,
        high: f64,
    ) -> Found<f64> {
        let value = match self.get(key) {
            None => return Ok(default),
            Some(Value::Integer(n)) => *n as f64,
            Some(Value::Float(x)) => *x,
            Some(_) => f64::NAN,
        };
        match (low..=high).contains(&value) {
            true => Ok(value),
            false => Err(self.fault(key, &format!("write a number from {low} to {high}"))),
        }
    }

    /// Yes or no.
    pub(super) fn flag(&self, key: &'static str, default: bool) -> Found<bool> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Boolean(flag)) => Ok(*flag),
            Some(_) => Err(self.fault(key, "write true or false")),
        }
    }

    /// A size such as `"1.5G"`, if the key is there.
    pub(super) fn size(&self, key: &'static str) -> Found<Option<Bytes>> {
        let wanted = "write a size in quotes, such as \"512M\" or \"1.5G\"";
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => match parse_size(text) {
                Ok(Size::Bytes(bytes)) => Ok(Some(bytes)),
                _ => Err(self.fault(key, &format!("{text:?} is no size: {wanted}"))),
            },
            Some(_) => Err(self.fault(key, wanted)),
        }
    }

    /// A size within bounds, if the key is there.
    pub(super) fn size_within(
        &self,
        key: &'static str,
        low: Bytes,
        high: Bytes,
    ) -> Found<Option<Bytes>> {
        let wanted = |bound, bytes| self.fault(key, &format!("write a size of at {bound} {bytes}"));
        match self.size(key)? {
            Some(Bytes::ZERO) => Err(self.fault(key, "write a size of more than 0")),
            Some(size) if size < low => Err(wanted("least", low)),
            Some(size) if size > high => Err(wanted("most", high)),
            size => Ok(size),
        }
    }

    /// A time such as `"10ms"`.
    pub(super) fn duration(&self, key: &'static str, default: Nanos) -> Found<Nanos> {
        let wanted =
            "write a time of at most 366 days in quotes, such as \"250ns\", \"10ms\" or \"60s\"";
        match self.get(key) {
            None => Ok(default),
            Some(Value::String(text)) => parse_duration(text)
                .ok_or_else(|| self.fault(key, &format!("{text:?} is no time: {wanted}"))),
            Some(_) => Err(self.fault(key, wanted)),
        }
    }

    /// One of some words, by their names, if the key is there.
    pub(super) fn word<T: Copy>(
        &self,
        key: &'static str,
        words: impl IntoIterator<Item = (&'static str, T)>,
    ) -> Found<Option<T>> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        let words: Vec<(&'static str, T)> = words.into_iter().collect();
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| Some(*value)).ok_or_else(|| {
            let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.fault(key, &format!("{text:?} is none of {}", names.join(", ")))
        })
    }

    /// A table within, if the key is there.
    pub(super) fn table(&self, key: &'static str) -> Found<Option<Node<'a>>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(Node::new(&self.name(key), table))),
            Some(_) => Err(self.fault(key, &format!("write a table: [{}]", self.name(key)))),
        }
    }

    /// Tables in an array, counted from 1 in messages.
    pub(super) fn tables(&self, key: &'static str) -> Found<Vec<Node<'a>>> {
        let wanted = || self.fault(key, &format!("write tables: [[{}]]", self.name(key)));
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(all)) => {
                let node = |(i, value): (usize, &'a Value)| match value {
                    Value::Table(table) => {
                        Ok(Node::new(&format!("{} {}", self.name(key), i + 1), table))
                    }
                    _ => Err(wanted()),
                };
                all.iter().enumerate().map(node).collect()
            }
            Some(_) => Err(wanted()),
        }
    }

    /// A fault if there is a key that was not asked for.
    pub(super) fn finish(&self) -> Found<()> {
        let asked = self.asked.borrow();
        match self.table.keys().find(|key| !asked.contains(key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let known: Vec<&str> = asked.iter().copied().collect();
                let known = known.join(", ");
                Err(match nearest(key, asked.iter().copied()) {
                    None => self.fault(key, &format!("means nothing here: there is {known}")),
                    Some(near) => self.fault(
                        key,
                        &format!("did you mean {near}? it means nothing here: there is {known}"),
                    ),
                })
            }
        }
    }
}
