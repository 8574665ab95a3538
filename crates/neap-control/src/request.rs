//! What may be asked of a job: a line of JSON each, and a line for the answer.

use neap_units::Limit;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::change::Change;
use crate::name::Name;

/// The version of these words. Within it fields and requests are only added.
pub const VERSION: u64 = 1;
/// Most bytes of a request, without the end of its line.
pub const LONGEST: usize = 4096;

/// One request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// All figures, as `--stats` has them.
    Stat,
    /// The run so far, over time.
    Series,
    /// Change what can be changed while the job runs.
    Set(Vec<Change>),
    /// Take so many bytes away now.
    Reclaim(u64),
    /// Stop all processes, and take out all that can leave.
    Freeze {
        /// All of the pool goes on to the swap file.
        to_disk: bool,
    },
    /// Let them go on.
    Thaw {
        /// Bring back what they used last.
        prefetch: bool,
    },
    /// Tell what has happened, and what will.
    Events,
    /// Have the processes of the one who asks count for the service, as a job of its own.
    Join(Join),
    /// That job has ended: tell its figures.
    Leave,
}

/// A job that joins a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Join {
    /// What it is to be called there.
    pub name: Option<Name>,
    /// `memory.max`: its own limit.
    pub max: Limit,
    /// `memory.low`: what others do not take from it while they have any.
    pub low: Limit,
    /// `memory.min`: what is never taken from it for others.
    pub min: Limit,
    /// `memory.high`.
    pub high: Limit,
    /// `memory.swap.max`.
    pub swap_max: Limit,
    /// `memory.zswap.max`.
    pub zswap_max: Limit,
    /// `memory.zswap.writeback`: its pages may be written to the swap file.
    pub writeback: bool,
    /// `idle`: for how many milliseconds its processes must do nothing before their memory leaves, 0 for never; `None`: as the
    /// service has it.
    pub idle: Option<u64>,
    /// No process of it runs unmanaged.
    pub require: bool,
    /// The command.
    pub command: Vec<String>,
}

impl Default for Join {
    fn default() -> Self {
        Self {
            name: None,
            max: Limit::Max,
            low: Limit::ZERO,
            min: Limit::ZERO,
            high: Limit::Max,
            swap_max: Limit::Max,
            zswap_max: Limit::Max,
            writeback: true,
            idle: None,
            require: false,
            command: Vec::new(),
        }
    }
}

/// A request, and whom it is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// A job of the service; `None`: all that the socket is for.
    pub job: Option<Name>,
    /// What is asked.
    pub request: Request,
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
    #[error("\"op\" is none of stat, series, set, reclaim, freeze, thaw, events, join, leave")]
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

impl Request {
    fn read(object: &Map<String, Value>) -> Result<Self, Fault> {
        if object.get("v").and_then(Value::as_u64) != Some(VERSION) {
            return Err(Fault::Version);
        }
        match object.get("op").and_then(Value::as_str).unwrap_or_default() {
            "stat" => Ok(Self::Stat),
            "series" => Ok(Self::Series),
            "events" => Ok(Self::Events),
            "reclaim" => object
                .get("bytes")
                .and_then(Value::as_u64)
                .filter(|&bytes| bytes > 0)
                .map(Self::Reclaim)
                .ok_or(Fault::Field("bytes", "a number above 0")),
            "set" => Self::read_changes(object),
            "freeze" => Ok(Self::Freeze {
                to_disk: switch(object, "to_disk")?,
            }),
            "thaw" => Ok(Self::Thaw {
                prefetch: switch(object, "prefetch")?,
            }),
            "join" => Join::read(object).map(Self::Join),
            "leave" => Ok(Self::Leave),
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

    fn object(&self) -> Value {
        match self {
            Self::Stat => json!({"v": VERSION, "op": "stat"}),
            Self::Series => json!({"v": VERSION, "op": "series"}),
            Self::Events => json!({"v": VERSION, "op": "events"}),
            Self::Reclaim(bytes) => json!({"v": VERSION, "op": "reclaim", "bytes": bytes}),
            Self::Freeze { to_disk } => {
                json!({"v": VERSION, "op": "freeze", "to_disk": u64::from(*to_disk)})
            }
            Self::Thaw { prefetch } => {
                json!({"v": VERSION, "op": "thaw", "prefetch": u64::from(*prefetch)})
            }
            Self::Set(changes) => {
                let entries = changes.iter().map(|change| change.entry());
                let set: Map<String, Value> = entries
                    .map(|(key, value)| (key.to_owned(), value.into()))
                    .collect();
                json!({"v": VERSION, "op": "set", "set": set})
            }
            Self::Join(join) => json!({
                "v": VERSION,
                "op": "join",
                "name": join.name.as_ref().map(Name::as_str),
                "memory.max": number(join.max),
                "memory.low": join.low.word(),
                "memory.min": join.min.word(),
                "memory.high": number(join.high),
                "swap.max": number(join.swap_max),
                "zswap.max": number(join.zswap_max),
                "zswap.writeback": u64::from(join.writeback),
                "idle": join.idle,
                "require": join.require,
                "command": join.command,
            }),
            Self::Leave => json!({"v": VERSION, "op": "leave"}),
        }
    }
}

impl Join {
    /// Most bytes of a command that is told.
    const COMMAND: usize = 1024;

    fn read(object: &Map<String, Value>) -> Result<Self, Fault> {
        let named = object.iter();
        let named = named.map(|(key, value)| (Change::key(key).to_owned(), value.clone()));
        let object: &Map<String, Value> = &named.collect();
        let size = |key: &'static str, usual: Limit| match object.get(key) {
            None | Some(Value::Null) => Ok(usual),
            Some(size) => Change::size(key, size),
        };
        let command = object.get("command").and_then(Value::as_array);
        let words = command.into_iter().flatten().filter_map(Value::as_str);
        Ok(Self {
            name: name(object, "name")?,
            max: size("memory.max", Limit::Max)?,
            low: size("memory.low", Limit::ZERO)?,
            min: size("memory.min", Limit::ZERO)?,
            high: size("memory.high", Limit::Max)?,
            swap_max: size("swap.max", Limit::Max)?,
            zswap_max: size("zswap.max", Limit::Max)?,
            writeback: match object.get("zswap.writeback") {
                None | Some(Value::Null) => true,
                Some(_) => switch(object, "zswap.writeback")?,
            },
            idle: match object.get("idle") {
                None | Some(Value::Null) => None,
                Some(millis) => match Change::new("idle", millis)? {
                    Change::Idle(millis) => Some(millis),
                    _ => None,
                },
            },
            require: object.get("require") == Some(&Value::Bool(true)),
            command: words.map(str::to_owned).collect(),
        })
    }

    /// A command, as much of it as a request has room for.
    #[must_use]
    pub fn words(command: &[String]) -> Vec<String> {
        let mut left = Self::COMMAND;
        let fits = |word: &&String| {
            let len = word.len() * 2 + 4;
            let fits = len <= left;
            left -= len.min(left);
            fits
        };
        command.iter().take_while(fits).cloned().collect()
    }
}

/// A limit as a number, if there is one.
fn number(limit: Limit) -> Option<u64> {
    limit.bytes().map(|bytes| bytes.0)
}

/// The name in a field, if it is there.
fn name(object: &Map<String, Value>, field: &'static str) -> Result<Option<Name>, Fault> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let name = value.as_str().and_then(|word| Name::new(word).ok());
            name.map(Some)
                .ok_or(Fault::Field(field, "the name of a job"))
        }
    }
}

impl Call {
    /// A request about all that the socket is for.
    #[must_use]
    pub fn new(request: Request) -> Self {
        Self { job: None, request }
    }

    /// Reads a line, without its end.
    ///
    /// # Errors
    /// It is none. Nothing of it is done then.
    pub fn read(line: &[u8]) -> Result<Self, Fault> {
        let object: Map<String, Value> =
            serde_json::from_slice(line).map_err(|_| Fault::NoObject)?;
        let request = Request::read(&object)?;
        let job = name(&object, "job")?;
        Ok(Self { job, request })
    }

    /// The line, with its end.
    #[must_use]
    pub fn line(&self) -> String {
        let mut object = self.request.object();
        if let Some(job) = &self.job {
            object["job"] = job.as_str().into();
        }
        format!("{object}\n")
    }
}

/// A field that may be left out, and is 0 then.
fn switch(object: &Map<String, Value>, name: &'static str) -> Result<bool, Fault> {
    match object.get(name).map(Value::as_u64) {
        None | Some(Some(0)) => Ok(false),
        Some(Some(1)) => Ok(true),
        Some(_) => Err(Fault::Field(name, "0 or 1")),
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
    use neap_units::Bytes;

    use super::*;

    fn mib(n: u64) -> Limit {
        Limit::Bytes(Bytes::mib(n))
    }

    #[test]
    fn a_request_that_is_written_is_read_again() {
        for request in [
            Request::Stat,
            Request::Series,
            Request::Events,
            Request::Reclaim(1 << 40),
            Request::Freeze { to_disk: true },
            Request::Freeze { to_disk: false },
            Request::Thaw { prefetch: true },
            Request::Thaw { prefetch: false },
            Request::Set(vec![
                Change::MemoryMax(mib(3 << 10)),
                Change::MaxPoolPercent(20),
            ]),
            Request::Set(vec![
                Change::MemoryLow(Limit::ZERO),
                Change::MemoryMin(mib(1)),
            ]),
            Request::Set(vec![Change::MemoryHigh(Limit::Max)]),
            Request::Set(vec![
                Change::SwapMax(Limit::Max),
                Change::ZswapMax(Limit::ZERO),
            ]),
            Request::Set(vec![Change::Writeback(false)]),
            Request::Set(vec![Change::Writeback(true)]),
            Request::Leave,
            Request::Join(Join::default()),
            Request::Join(Join {
                name: Some(Name::new("build").unwrap()),
                max: mib(1 << 10),
                low: mib(1),
                min: Limit::Bytes(Bytes(4096)),
                high: mib(512),
                swap_max: Limit::ZERO,
                zswap_max: mib(1),
                writeback: false,
                idle: Some(0),
                require: true,
                command: vec!["make".into(), "a \"b\"\n".into()],
            }),
            Request::Set(vec![Change::Idle(0)]),
            Request::Set(vec![Change::Idle(60_000)]),
        ] {
            for job in [None, Some(Name::new("one").unwrap())] {
                let call = Call {
                    job,
                    request: request.clone(),
                };
                let line = call.line();
                let line = line.strip_suffix('\n').unwrap();
                assert!(!line.contains('\n') && line.len() < LONGEST);
                assert_eq!(Call::read(line.as_bytes()), Ok(call));
            }
        }
    }

    #[test]
    fn the_kernel_s_names_and_its_max_are_taken() {
        let same = |one: &str, other: &str| {
            let read = |line: &str| Call::read(line.as_bytes()).expect("a request");
            assert_eq!(read(one), read(other), "{one}");
        };
        for (kernel, own) in [
            ("memory.swap.max", "swap.max"),
            ("memory.zswap.max", "zswap.max"),
            ("memory.zswap.writeback", "zswap.writeback"),
        ] {
            same(
                &format!("{{\"v\":1,\"op\":\"set\",\"set\":{{\"{kernel}\":1}}}}"),
                &format!("{{\"v\":1,\"op\":\"set\",\"set\":{{\"{own}\":1}}}}"),
            );
            same(
                &format!("{{\"v\":1,\"op\":\"join\",\"{kernel}\":0}}"),
                &format!("{{\"v\":1,\"op\":\"join\",\"{own}\":0}}"),
            );
        }
        for key in [
            "memory.max",
            "memory.high",
            "memory.low",
            "memory.min",
            "memory.swap.max",
        ] {
            same(
                &format!("{{\"v\":1,\"op\":\"set\",\"set\":{{\"{key}\":\"max\"}}}}"),
                &format!(
                    "{{\"v\":1,\"op\":\"set\",\"set\":{{\"{key}\":{}}}}}",
                    u64::MAX
                ),
            );
        }
        assert_eq!(Change::key("memory.writeback"), "memory.writeback");
    }

    #[test]
    fn a_command_is_told_as_far_as_there_is_room() {
        let words = vec!["\"".repeat(200); 10];
        let told = Join::words(&words);
        assert!(!told.is_empty() && told.len() < words.len());
        let join = Join {
            command: told,
            ..Join::default()
        };
        assert!(Call::new(Request::Join(join)).line().len() < LONGEST);
        let no_name = "{\"v\":1,\"op\":\"join\",\"name\":\"a b\"}";
        assert_eq!(Call::read(no_name.as_bytes()).unwrap_err().code(), "EINVAL");
    }

    #[test]
    fn what_is_no_request_is_refused_for_what_is_wrong_with_it() {
        let code = |line: &str| Call::read(line.as_bytes()).unwrap_err().code();
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
        assert_eq!(code("{\"v\":1,\"op\":\"freeze\",\"to_disk\":2}"), "EINVAL");
        assert_eq!(
            code("{\"v\":1,\"op\":\"thaw\",\"prefetch\":true}"),
            "EINVAL"
        );
        let soon = "{\"v\":1,\"op\":\"set\",\"set\":{\"idle\":99}}";
        assert_eq!(code(soon), "EINVAL");
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
