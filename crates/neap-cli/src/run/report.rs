//! What a run leaves behind: the statistics file, the exit file, the summary.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use neap_tuning::TUNING;
use neap_units::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::exit::{self, Ending};
use crate::failure::Failure;

/// The schema's name; fields are only ever added within a number.
pub const SCHEMA: &str = "neap.run/1";

/// Counters that are always in `vmstat`, moved or not.
const VMSTAT: [&str; 9] = [
    "zswpin",
    "zswpout",
    "zswpwb",
    "pswpin",
    "pswpout",
    "pgmajfault",
    "pgscan",
    "pgsteal",
    "workingset_refault_anon",
];
/// The same for `zswap`.
const ZSWAP: [&str; 3] = ["stored_pages", "pool_bytes", "compressed_bytes"];
/// The same for `memory`.
const MEMORY: [&str; 7] = [
    "limit_bytes",
    "peak_bytes",
    "peak_resident_bytes",
    "peak_pool_bytes",
    "pool_held_bytes",
    "pool_compressed_bytes",
    "overhead_bytes",
];

/// A file the user asked for, made before the command starts so that a bad path is found in time.
#[derive(Debug)]
pub struct Output {
    file: File,
    flag: &'static str,
    path: PathBuf,
}

impl Output {
    /// Makes the file, empty. `-` is refused: elsewhere it is standard output, which is the command's.
    ///
    /// # Errors
    /// When it cannot be made; the flag and the path are named.
    pub fn create(flag: &'static str, path: &Path) -> Result<Self, Failure> {
        let file = match path == Path::new("-") {
            true => Err(io::Error::other("standard output is the command's")),
            false => File::create(path),
        };
        file.map(|file| Self {
            file,
            flag,
            path: path.to_owned(),
        })
        .map_err(|source| Failure::Output {
            flag,
            path: path.to_owned(),
            source,
        })
    }

    /// The flag and the path, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.flag, self.path.display())
    }

    /// Refuses a regular file that an earlier flag names, too: one would write over the other.
    ///
    /// # Errors
    /// It is the same file; the flag and the path are named.
    pub fn differs_from(&self, earlier: Option<&Self>) -> Result<(), Failure> {
        let Some(earlier) = earlier else {
            return Ok(());
        };
        let id = |file: &File| {
            let facts = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some((facts.dev(), facts.ino()))
        };
        if id(&self.file).is_none_or(|own| Some(own) != id(&earlier.file)) {
            return Ok(());
        }
        Err(Failure::Output {
            flag: self.flag,
            path: self.path.clone(),
            source: io::Error::other(format!("{} names the same file", earlier.flag)),
        })
    }

    /// The file, for who writes it bit by bit.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Writes the content, once.
    ///
    /// # Errors
    /// The disk is full, or the reader is gone.
    pub fn write(mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())
    }
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Finished<'a> {
    /// The command line.
    pub command: &'a [String],
    /// How the command ended.
    pub ending: Ending,
    /// From the start of the command to its end.
    pub wall_seconds: f64,
    /// Whether the engine served it.
    pub managed: bool,
    /// What the engine says of it; empty when it did not serve.
    pub engine: Map<String, Value>,
    /// What neap itself warned of.
    pub warnings: &'a [String],
    /// The limit of the plan.
    pub limit: Bytes,
    /// The decisions of the plan, by the flags' names.
    pub config: Value,
    /// The kernel's release.
    pub kernel: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    command: &'a [String],
    exit_status: u8,
    signal: Option<i32>,
    wall_seconds: f64,
    managed: bool,
    kernel: Option<&'a str>,
    config: &'a Value,
    #[serde(flatten)]
    engine: Map<String, Value>,
}

impl Finished<'_> {
    /// The statistics as one JSON object and a newline.
    #[must_use]
    pub fn json(&self) -> String {
        let document = Document {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            command: self.command,
            exit_status: self.ending.status(),
            signal: match self.ending {
                Ending::Exited(_) => None,
                Ending::Signaled(signal) => Some(signal),
            },
            wall_seconds: self.wall_seconds,
            managed: self.managed,
            kernel: self.kernel.as_deref(),
            config: &self.config,
            engine: self.complete(),
        };
        // Strings, numbers and maps with string keys always serialize.
        let mut text = serde_json::to_string(&document).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The engine's part with every promised field in it.
    fn complete(&self) -> Map<String, Value> {
        let mut all = self.engine.clone();
        for (section, names) in [
            ("memory", &MEMORY[..]),
            ("vmstat", &VMSTAT[..]),
            ("zswap", &ZSWAP[..]),
        ] {
            let section = all.entry(section).or_insert_with(|| json!({}));
            for name in names {
                if section.get(name).is_none() {
                    section[name] = json!(0);
                }
            }
        }
        if !self.managed {
            all["memory"]["limit_bytes"] = json!(self.limit.0);
        }
        all.entry("processes").or_insert_with(|| json!([]));
        let warnings = all.entry("warnings").or_insert_with(|| json!([]));
        if let Value::Array(list) = warnings {
            list.splice(0..0, self.warnings.iter().map(|line| json!(line)));
        }
        all
    }

    /// A few lines for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let all = self.complete();
        let of = |section: &str, name: &str| all.get(section)?[name].as_u64();
        let number = |section, name| of(section, name).unwrap_or(0);
        let memory = |name| Bytes(number("memory", name));
        let count = |name| number("vmstat", name);
        // What left by freezing or since its process was idle did not leave for the limit.
        let refaults = match number("events", "freeze") {
            0 => count("workingset_refault_anon").saturating_sub(number("neap", "idle")),
            _ => 0,
        };
        let ending = match self.ending {
            Ending::Exited(code) => format!("exited {code}"),
            Ending::Signaled(signal) => format!("ended by {}", exit::name(signal)),
        };
        if !self.managed {
            return format!(
                "neap: {ending} after {:.2} s, unmanaged\n",
                self.wall_seconds
            );
        }
        format!(
            "neap: {ending} after {:.2} s\n\
             neap: memory: peak {} of {} (resident {}, pool {}, neap itself {})\n\
             neap: pages out: {} compressed, {} of them to the swap file; \
             in: {} decompressed, {} read from the swap file\n",
            self.wall_seconds,
            memory("peak_bytes"),
            memory("limit_bytes"),
            memory("peak_resident_bytes"),
            memory("peak_pool_bytes"),
            memory("overhead_bytes"),
            count("zswpout"),
            count("zswpwb"),
            count("zswpin"),
            count("pswpin"),
        ) + &self.hint(refaults, memory("limit_bytes"))
    }

    /// One line more where the program did little but wait for its pages; else nothing.
    fn hint(&self, refaults: u64, limit: Bytes) -> String {
        let over = refaults / limit.whole_pages().0.max(1);
        if over < TUNING.command.often
            || (refaults as f64) < TUNING.command.fast as f64 * self.wall_seconds
        {
            return String::new();
        }
        format!(
            "neap: the working set does not fit: as much as the limit came back {over} times over; try: a larger --memory\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished<'a>(command: &'a [String], warnings: &'a [String]) -> Finished<'a> {
        Finished {
            command,
            ending: Ending::Signaled(9),
            wall_seconds: 1.5,
            managed: false,
            engine: Map::new(),
            warnings,
            limit: Bytes::mib(64),
            config: json!({"compressor": "lz4"}),
            kernel: None,
        }
    }

    fn parse(finished: &Finished<'_>) -> Value {
        let text = finished.json();
        assert!(text.ends_with("}\n") && text.starts_with("{\"schema\":\"neap.run/1\""));
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn every_promised_field_is_there_even_when_unmanaged() {
        let (command, warnings) = (["a".to_owned()], ["w".to_owned()]);
        let value = parse(&finished(&command, &warnings));
        assert_eq!(value["command"], json!(["a"]));
        assert_eq!(value["exit_status"], 137);
        assert_eq!(value["signal"], 9);
        assert_eq!(value["managed"], false);
        assert_eq!(value["config"]["compressor"], "lz4");
        assert_eq!(value["memory"]["limit_bytes"], 64 << 20);
        assert_eq!(value["vmstat"]["zswpin"], 0);
        assert_eq!(value["zswap"]["stored_pages"], 0);
        assert_eq!(value["processes"], json!([]));
        assert_eq!(value["warnings"], json!(["w"]));
    }

    #[test]
    fn what_the_engine_says_is_kept_and_its_warnings_come_last() {
        let warnings = ["first".to_owned()];
        let mut run = finished(&[], &warnings);
        run.managed = true;
        run.ending = Ending::Exited(3);
        let Value::Object(engine) = json!({
            "memory": {"limit_bytes": 5, "peak_bytes": 4},
            "vmstat": {"zswpout": 7, "extra": 1},
            "processes": [{"pid": 1}],
            "warnings": ["second"],
        }) else {
            panic!("not an object");
        };
        run.engine = engine;
        let value = parse(&run);
        assert_eq!(
            (&value["exit_status"], &value["signal"]),
            (&json!(3), &Value::Null)
        );
        assert_eq!(value["memory"]["limit_bytes"], 5);
        assert_eq!(value["vmstat"]["zswpout"], 7);
        assert_eq!(value["vmstat"]["extra"], 1);
        assert_eq!(value["vmstat"]["pgscan"], 0);
        assert_eq!(value["warnings"], json!(["first", "second"]));
    }

    #[test]
    fn the_summary_names_peak_and_limit() {
        let mut run = finished(&[], &[]);
        assert!(
            run.summary()
                .contains("ended by SIGKILL after 1.50 s, unmanaged")
        );
        run.managed = true;
        run.engine = Map::from_iter([(
            "memory".to_owned(),
            json!({"limit_bytes": 64 << 20, "peak_bytes": 63 << 20}),
        )]);
        assert!(
            run.summary().contains("peak 63MiB of 64MiB"),
            "{}",
            run.summary()
        );
    }

    #[test]
    fn the_summary_says_when_the_working_set_does_not_fit() {
        let summary_of = |wall_seconds, refaults: u64, frozen: u64, idle: u64| {
            let mut run = finished(&[], &[]);
            (run.managed, run.wall_seconds) = (true, wall_seconds);
            run.engine = Map::from_iter([
                ("memory".to_owned(), json!({"limit_bytes": 4 << 20})),
                (
                    "vmstat".to_owned(),
                    json!({"workingset_refault_anon": refaults}),
                ),
                ("events".to_owned(), json!({"freeze": frozen})),
                ("neap".to_owned(), json!({"idle": idle})),
            ]);
            run.summary()
        };
        let summary = |wall_seconds, refaults| summary_of(wall_seconds, refaults, 0, 0);
        let told = "came back 2 times over; try: a larger --memory\n";
        assert!(summary(0.2, 2 << 10).ends_with(told));
        assert!(!summary(0.1, (2 << 10) - 1).contains("does not fit"));
        assert!(!summary(0.3, 2 << 10).contains("does not fit"), "rarely");
        assert!(!summary_of(0.2, 2 << 10, 1, 0).contains("does not fit"));
        assert!(!summary_of(0.2, 2 << 10, 0, 1).contains("does not fit"));
    }

    #[test]
    fn an_output_that_cannot_be_made_is_known_before_the_command_runs() {
        let dir = tempfile::tempdir().unwrap();
        let bad = Output::create("--stats", &dir.path().join("no/such"));
        assert_eq!(bad.unwrap_err().code(), "E0107");
        let path = dir.path().join("out");
        Output::create("--stats", &path)
            .unwrap()
            .write("x")
            .unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "x");
    }
}
