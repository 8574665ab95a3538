//! As much of JSON Schema as the schema of the control socket uses: whether what neap says is what its guide describes.

use serde_json::{Map, Value};

/// A schema, with what its references name.
#[derive(Clone, Debug)]
pub struct Schema(Value);

impl Schema {
    /// That of the requests, answers and events of the control socket.
    ///
    /// # Panics
    /// If it is no JSON.
    #[must_use]
    pub fn of_control() -> Self {
        let text = include_str!("../../docs/guide/control.schema.json");
        Self(serde_json::from_str(text).expect("JSON"))
    }

    /// What of a value the rule below `#/$defs/` does not allow or does not name, in lines.
    ///
    /// # Panics
    /// If the schema says something that is not understood here.
    #[must_use]
    pub fn faults(&self, rule: &str, value: &Value) -> Vec<String> {
        let mut check = Check {
            schema: &self.0,
            faults: Vec::new(),
        };
        check.rule(self.named(rule), value, "");
        check.faults
    }

    fn named(&self, rule: &str) -> &Value {
        let rule = self.0.pointer(&format!("/$defs/{rule}"));
        rule.expect("there is such a rule")
    }
}

struct Check<'a> {
    schema: &'a Value,
    faults: Vec<String>,
}

impl<'a> Check<'a> {
    fn rule(&mut self, rule: &'a Value, value: &Value, at: &str) {
        let words = rule.as_object().expect("a rule is an object");
        for (word, rule) in words {
            match &**word {
                "$ref" => self.rule(self.target(rule), value, at),
                "const" => self.must(rule == value, at, word, value),
                "enum" => self.must(list(rule).contains(value), at, word, value),
                "type" => self.must(is_of(rule, value), at, word, value),
                "minimum" => self.must(number(value) >= number(rule), at, word, value),
                "maximum" => self.must(number(value) <= number(rule), at, word, value),
                "minProperties" => {
                    let count = value.as_object().map_or(0, Map::len) as f64;
                    self.must(count >= number(rule), at, word, value);
                }
                "required" => {
                    let mut names = list(rule).iter();
                    let has = names.all(|name| value.get(name.as_str().unwrap_or("")).is_some());
                    self.must(has, at, word, value);
                }
                "properties" => self.properties(words, value, at),
                "items" => {
                    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.rule(rule, item, &format!("{at}/{number}"));
                    }
                }
                "allOf" => list(rule)
                    .iter()
                    .for_each(|rule| self.rule(rule, value, at)),
                "anyOf" => {
                    let is = list(rule).iter().any(|rule| self.allows(rule, value));
                    self.must(is, at, word, value);
                }
                "if" => {
                    let next = if self.allows(rule, value) {
                        "then"
                    } else {
                        "else"
                    };
                    if let Some(rule) = words.get(next) {
                        self.rule(rule, value, at);
                    }
                }
                "additionalProperties" if words.contains_key("properties") => {}
                "additionalProperties" => {
                    for (name, value) in value.as_object().into_iter().flatten() {
                        self.rule(rule, value, &format!("{at}/{name}"));
                    }
                }
                "then" | "else" => {}
                other => panic!("{other} is not understood"),
            }
        }
    }

    /// Whoever reads the schema expects to find all that there is, although more may come.
    fn properties(&mut self, words: &'a Map<String, Value>, value: &Value, at: &str) {
        let rules = words["properties"].as_object().expect("rules by name");
        let is_whole = words.contains_key("type");
        for (name, value) in value.as_object().into_iter().flatten() {
            let at = format!("{at}/{name}");
            match rules.get(name) {
                Some(rule) => self.rule(rule, value, &at),
                None if is_whole => self.faults.push(format!("{at} is not described")),
                None => {}
            }
        }
    }

    fn allows(&self, rule: &'a Value, value: &Value) -> bool {
        let mut check = Check {
            schema: self.schema,
            faults: Vec::new(),
        };
        check.rule(rule, value, "");
        check.faults.is_empty()
    }

    fn target(&self, reference: &Value) -> &'a Value {
        let path = reference.as_str().and_then(|word| word.strip_prefix('#'));
        let target = path.and_then(|path| self.schema.pointer(path));
        target.expect("a rule of the same schema")
    }

    fn must(&mut self, is: bool, at: &str, word: &str, value: &Value) {
        if !is {
            self.faults.push(format!("{at}: {word}: {value}"));
        }
    }
}

fn list(rule: &Value) -> &[Value] {
    rule.as_array().expect("a list")
}

/// What is no number is judged by its type.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn is_of(kinds: &Value, value: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str().expect("a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("{other} is no type"),
    };
    match kinds {
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_described_is_found_and_what_is_passes() {
        let schema = Schema::of_control();
        let good = [
            json!({"v": 1, "op": "set", "set": {"memory.swap.max": "max", "idle": 0}}),
            json!({"v": 1, "op": "reclaim", "bytes": 1, "job": "one"}),
        ];
        for request in good {
            assert_eq!(schema.faults("request", &request), Vec::<String>::new());
        }
        for (bad, faults) in [
            (json!({"v": 2, "op": "stat"}), 1),
            (json!({"op": "stat"}), 1),
            (json!({"v": 1, "op": "set"}), 1),
            (json!({"v": 1, "op": "set", "set": {}}), 1),
            (json!({"v": 1, "op": "set", "set": {"memory.max": 1}}), 1),
            (json!({"v": 1, "op": "set", "set": {"frob": 1}}), 1),
            (json!({"v": 1, "op": "stat", "jobs": 1, "name": 7}), 2),
        ] {
            let found = schema.faults("request", &bad);
            assert_eq!(found.len(), faults, "{bad}: {found:?}");
        }
        let answer = json!({"v": 1, "ok": false});
        assert_eq!(schema.faults("answer", &answer).len(), 1);
    }
}
