//! What may be asked of a job: a line of JSON each, and a line for the answer.

use serde_json::{Map, Value, json};
use thiserror::Error;

/// The version of these words. Within it fields and requests are only added.
pub const VERSION: u64 = 1;
/// Most bytes of a request, without the end of its line.
pub const LONGEST: usize = 4096;

/// One request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// All figures, as `--stats` has them.
    Stat,
    /// Change what can be changed while the job runs.
    Set(Vec<Change>),
    /// Take so many bytes away now.
    Reclaim(u64),
    /// Tell what has happened, and what will.
    Events,
}

/// One thing that is to be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// `memory.max`: the limit, in bytes.
    MemoryMax(u64),
    /// `zswap.max_pool_percent`: the most of the limit that the pool may take.
    MaxPoolPercent(u8),
    /// `zswap.writeback`: whether pages may be written to the swap file.
    Writeback(bool),
}

/// Why a line is no request. The text is for people.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Fault {
    /// Not an object of JSON.
    #[error("a request is one JSON object on a line")]
    NoObject,
    /// Another version.
    #[error("\"v\" is not {VERSION}")]
    Version,
    /// An `op` that there is not.
    #[error("\"op\" is none of stat, set, reclaim, events")]
    Op,
    /// A field that is missing, or holds something else.
    #[error("{0:?} is missing or holds something else than {1}")]
    Field(&'static str, &'static str),
    /// Something that cannot be set.
    #[error("{0:?} cannot be set while a job runs; these can: {keys}", keys = Change::KEYS.join(", "))]
    Key(String),
}

impl Fault {
    /// The name of the error, as errno(3) has it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Version => "EPROTO",
            Self::Op => "EOPNOTSUPP",
            Self::Key(_) => "ENOENT",
            Self::NoObject | Self::Field(..) => "EINVAL",
        }
    }
}

impl Change {
    /// What can be set.
    pub const KEYS: [&'static str; 3] = ["memory.max", "zswap.max_pool_percent", "zswap.writeback"];

    /// The change of `key` to `value`.
    ///
    /// # Errors
    /// There is no such key, or it does not hold such a value.
    pub fn new(key: &str, value: &Value) -> Result<Self, Fault> {
        let number = value.as_u64();
        match key {
            "memory.max" => number
                .map(Self::MemoryMax)
                .ok_or(Fault::Field("memory.max", "a number of bytes")),
            "zswap.max_pool_percent" => number
                .and_then(|percent| u8::try_from(percent).ok())
                .filter(|percent| (1..=100).contains(percent))
                .map(Self::MaxPoolPercent)
                .ok_or(Fault::Field(
                    "zswap.max_pool_percent",
                    "a number from 1 to 100",
                )),
            "zswap.writeback" => match number {
                Some(0) => Ok(Self::Writeback(false)),
                Some(1) => Ok(Self::Writeback(true)),
                _ => Err(Fault::Field("zswap.writeback", "0 or 1")),
            },
            _ => Err(Fault::Key(key.chars().take(40).collect())),
        }
    }

    fn entry(self) -> (&'static str, u64) {
        match self {
            Self::MemoryMax(bytes) => (Self::KEYS[0], bytes),
            Self::MaxPoolPercent(percent) => (Self::KEYS[1], percent.into()),
            Self::Writeback(on) => (Self::KEYS[2], on.into()),
        }
    }
}

impl Request {
    /// Reads a line, without its end.
    ///
    /// # Errors
    /// It is none. Nothing of it is done then.
    pub fn read(line: &[u8]) -> Result<Self, Fault> {
        let object: Map<String, Value> =
            serde_json::from_slice(line).map_err(|_| Fault::NoObject)?;
        if object.get("v").and_then(Value::as_u64) != Some(VERSION) {
            return Err(Fault::Version);
        }
        match object.get("op").and_then(Value::as_str).unwrap_or_default() {
            "stat" => Ok(Self::Stat),
            "events" => Ok(Self::Events),
            "reclaim" => object
                .get("bytes")
                .and_then(Value::as_u64)
                .filter(|&bytes| bytes > 0)
                .map(Self::Reclaim)
                .ok_or(Fault::Field("bytes", "a number above 0")),
            "set" => Self::read_changes(&object),
            _ => Err(Fault::Op),
        }
    }

    fn read_changes(object: &Map<String, Value>) -> Result<Self, Fault> {
        let wanted = object.get("set").and_then(Value::as_object);
        let wanted = wanted.filter(|wanted| !wanted.is_empty());
        let wanted = wanted.ok_or(Fault::Field("set", "an object of what to set"))?;
        let changes = wanted.iter().map(|(key, value)| Change::new(key, value));
        changes.collect::<Result<_, _>>().map(Self::Set)
    }

    /// The line, with its end.
    #[must_use]
    pub fn line(&self) -> String {
        let object = match self {
            Self::Stat => json!({"v": VERSION, "op": "stat"}),
            Self::Events => json!({"v": VERSION, "op": "events"}),
            Self::Reclaim(bytes) => json!({"v": VERSION, "op": "reclaim", "bytes": bytes}),
            Self::Set(changes) => {
                let entries = changes.iter().map(|change| change.entry());
                let set: Map<String, Value> = entries
                    .map(|(key, value)| (key.to_owned(), value.into()))
                    .collect();
                json!({"v": VERSION, "op": "set", "set": set})
            }
        };
        format!("{object}\n")
    }
}

/// The answer to a request that was done, with the end of its line.
#[must_use]
pub fn success(result: &Value) -> String {
    format!("{}\n", json!({"v": VERSION, "ok": true, "result": result}))
}

/// The answer to one that was not: the error as errno(3) names it, words for people, and what was achieved all the same.
#[must_use]
pub fn failure(code: &str, message: &str, result: &Value) -> String {
    let error = json!({"code": code, "message": message});
    format!(
        "{}\n",
        json!({"v": VERSION, "ok": false, "error": error, "result": result})
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_written_is_read_again() {
        for request in [
            Request::Stat,
            Request::Events,
            Request::Reclaim(1 << 40),
            Request::Set(vec![Change::MemoryMax(3 << 30), Change::MaxPoolPercent(20)]),
            Request::Set(vec![Change::Writeback(false)]),
            Request::Set(vec![Change::Writeback(true)]),
        ] {
            let line = request.line();
            let line = line.strip_suffix('\n').unwrap();
            assert!(!line.contains('\n') && line.len() < LONGEST);
            assert_eq!(Request::read(line.as_bytes()), Ok(request));
        }
    }

    #[test]
    fn what_is_no_request_is_refused_for_what_is_wrong_with_it() {
        let code = |line: &str| Request::read(line.as_bytes()).unwrap_err().code();
        assert_eq!(code(""), "EINVAL");
        assert_eq!(code("[1]"), "EINVAL");
        assert_eq!(code(&"[".repeat(LONGEST)), "EINVAL");
        assert_eq!(code("{\"op\":\"stat\"}"), "EPROTO");
        assert_eq!(code("{\"v\":2,\"op\":\"stat\"}"), "EPROTO");
        assert_eq!(code("{\"v\":1,\"op\":\"frob\"}"), "EOPNOTSUPP");
        assert_eq!(code("{\"v\":1,\"op\":\"reclaim\",\"bytes\":-1}"), "EINVAL");
        assert_eq!(
            code("{\"v\":1,\"op\":\"reclaim\",\"bytes\":1e300}"),
            "EINVAL"
        );
        assert_eq!(code("{\"v\":1,\"op\":\"set\",\"set\":{}}"), "EINVAL");
        assert_eq!(
            code("{\"v\":1,\"op\":\"set\",\"set\":{\"memory.max\":\"3G\"}}"),
            "EINVAL"
        );
        assert_eq!(
            code("{\"v\":1,\"op\":\"set\",\"set\":{\"memory.max\":1,\"memory.frob\":1}}"),
            "ENOENT"
        );
        let percent = "{\"v\":1,\"op\":\"set\",\"set\":{\"zswap.max_pool_percent\":101}}";
        assert_eq!(code(percent), "EINVAL");
        let switch = "{\"v\":1,\"op\":\"set\",\"set\":{\"zswap.writeback\":2}}";
        assert_eq!(code(switch), "EINVAL");
    }

    #[test]
    fn an_unknown_key_gets_one_line_that_names_those_there_are() {
        let fault = Change::new("memory.fro\nb", &json!(1))
            .unwrap_err()
            .to_string();
        assert_eq!(fault.lines().count(), 1, "{fault}");
        assert!(
            Change::KEYS.iter().all(|key| fault.contains(key)),
            "{fault}"
        );
    }
}
