//! The rows of the suite: their commands, and the files those need.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What kind of row it is: rows of a kind share a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Scans that read.
    Clean,
    /// Scans that write.
    Dirty,
    /// Few pages take most accesses, or many none.
    Skewed,
    /// Any page, one thread.
    Uniform,
    /// Any page, several threads.
    Threads,
    /// New memory at the limit.
    Fresh,
    /// A program that people run.
    Real,
    /// Measured, but no target is set.
    Other,
}

/// What a row runs.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// `neap-work KIND MIB OPS`.
    Work(&'static str, usize, usize),
    /// `neap-work redis MIB OPS DIR`.
    Redis(usize, usize),
    /// A python group-by over so many rows.
    Python(usize),
    /// So many rows in sqlite's memory.
    Sqlite(usize),
    /// `gcc -O2` of so many functions.
    Gcc(usize),
    /// `sort` of so many MiB.
    Sort(usize),
    /// A JVM with so many objects.
    Java(usize),
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub class: Class,
    job: Job,
}

const fn row(name: &'static str, class: Class, job: Job) -> Row {
    Row { name, class, job }
}

/// MiB that a synthetic workload holds at its most.
const MIB: usize = 256;
const PAGES: usize = MIB * 256;

/// Every row, in the order of the report.
pub const ROWS: [Row; 18] = [
    row("seq-read", Class::Clean, work("seq-read", 3 * PAGES)),
    row("stride", Class::Clean, work("stride", 3 * PAGES)),
    row("seq-write", Class::Dirty, work("seq-write", 3 * PAGES)),
    row("zipf", Class::Skewed, work("zipf", 500_000)),
    row("hot-cold", Class::Skewed, work("hot-cold", 1_000_000)),
    row("dead", Class::Skewed, work("dead", 4_000_000)),
    row("random", Class::Uniform, work("random", 200_000)),
    row("chase", Class::Other, work("chase", 200_000)),
    row("threads-2", Class::Threads, work("threads-2", 200_000)),
    row("threads-4", Class::Threads, work("threads-4", 200_000)),
    row("fresh", Class::Fresh, work("fresh", 4 * PAGES)),
    row("noise", Class::Other, work("noise", 100_000)),
    row("python", Class::Real, Job::Python(400_000)),
    row("redis", Class::Real, Job::Redis(128, 200_000)),
    row("sqlite", Class::Real, Job::Sqlite(400_000)),
    row("gcc", Class::Real, Job::Gcc(300)),
    row("sort", Class::Real, Job::Sort(96)),
    row("java", Class::Real, Job::Java(100_000)),
];

const fn work(kind: &'static str, ops: usize) -> Job {
    Job::Work(kind, MIB, ops)
}

/// Where things are.
#[derive(Clone, Debug)]
pub struct Place {
    /// `neap-work`.
    pub work: PathBuf,
    /// The top of the repository.
    pub repository: PathBuf,
    /// For files made once, and for what runs write.
    pub dir: PathBuf,
    /// Size of everything, in percent of the suite's.
    pub scale: usize,
}

impl Row {
    /// The command of the row, with its files made; or what the machine lacks.
    ///
    /// # Errors
    /// The tool that is missing, or the file that cannot be made.
    pub fn command(&self, place: &Place) -> Result<Vec<OsString>, String> {
        let scaled = |n: usize| (n * place.scale / 100).max(1);
        let text = |n: usize| scaled(n).to_string();
        let real = |name: &str| place.repository.join("tests/programs/real").join(name);
        let mut words: Vec<OsString> = Vec::new();
        let mut say = |more: &[&str]| words.extend(more.iter().map(OsString::from));
        match self.job {
            Job::Work(kind, mib, ops) => {
                let work = place.work.to_string_lossy();
                say(&[&work, kind, &text(mib), &text(ops)]);
            }
            Job::Redis(mib, ops) => {
                tool("redis-server", "--version")?;
                let (work, dir) = (place.work.to_string_lossy(), place.dir.to_string_lossy());
                say(&[&work, "redis", &text(mib), &text(ops), &dir]);
            }
            Job::Python(rows) => {
                let program = place.repository.join("benches/suite/programs/groupby.py");
                say(&[&python()?, &program.to_string_lossy(), &text(rows)]);
            }
            Job::Sqlite(rows) => {
                tool("sqlite3", "--version")?;
                let script = read(&real("tables.sql"))?.replace("@N@", &text(rows));
                let file = place.file("tables.sql", &script)?;
                say(&["sqlite3", ":memory:", &format!(".read {}", file.display())]);
            }
            Job::Gcc(functions) => {
                tool("gcc", "--version")?;
                let file = place.made_by_work("c-source", scaled(functions), "c")?;
                say(&["gcc", "-O2", "-w", "-S", "-o", "-", &file.to_string_lossy()]);
            }
            Job::Sort(mib) => {
                let file = place.made_by_work("lines", scaled(mib), "txt")?;
                let alone = ["env", "LC_ALL=C", "sort", "--parallel=1", "-S", "4G"];
                say(&alone);
                say(&[&file.to_string_lossy()]);
            }
            Job::Java(objects) => {
                let classes = java_classes(place, &real("Job.java"))?;
                let options = ["java", "-XX:+UseSerialGC", "-Xms64m", "-Xmx320m", "-cp"];
                say(&options);
                say(&[&classes.to_string_lossy(), "Job", &text(objects)]);
            }
        }
        Ok(words)
    }
}

impl Place {
    /// A file of that name, made anew: what an older suite made is not what this one measures.
    fn file(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.dir.join(name);
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path)
    }

    fn made_by_work(&self, kind: &str, size: usize, ending: &str) -> Result<PathBuf, String> {
        let text = crate::work::run(&[kind, &size.to_string()])? + "\n";
        self.file(&format!("{kind}.{ending}"), &text)
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Runs a tool to see whether it is there.
fn tool(name: &str, flag: &str) -> Result<(), String> {
    let mut command = Command::new(name);
    command.arg(flag).stdin(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{name} {flag} fails: {}", output.status)),
        Err(_) => Err(format!("{name} is not installed")),
    }
}

/// The interpreter itself: what is on the path may be a script of a version manager.
fn python() -> Result<String, String> {
    let mut command = Command::new("python3");
    command.args(["-c", "import sys; print(sys.executable)"]);
    let output = command
        .output()
        .map_err(|_| "python3 is not installed".to_owned())?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.status.success() && !path.is_empty() {
        true => Ok(path),
        false => Err(format!("python3 fails: {}", output.status)),
    }
}

fn java_classes(place: &Place, source: &Path) -> Result<PathBuf, String> {
    tool("java", "-version")?;
    let classes = place.dir.join("classes");
    let mut javac = Command::new("javac");
    javac.arg("-d").arg(&classes).arg(source);
    let output = javac.output();
    let output = output.map_err(|_| "javac is not installed".to_owned())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().next().unwrap_or_default();
        return Err(format!("javac fails: {line}"));
    }
    Ok(classes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(dir: &Path) -> Place {
        Place {
            work: "neap-work".into(),
            repository: Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
            dir: dir.to_owned(),
            scale: 1,
        }
    }

    #[test]
    fn names_are_words_and_none_comes_twice() {
        let mut names = ROWS.map(|row| row.name);
        assert!(names.iter().all(|name| !name.contains([' ', '/'])));
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn a_row_is_a_command_or_says_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        // The java compiler takes seconds to start.
        for row in ROWS.iter().filter(|row| row.name != "java") {
            match row.command(&place(dir.path())) {
                Ok(words) => assert!(!words[0].is_empty()),
                Err(missing) => assert!(!missing.is_empty(), "{}", row.name),
            }
        }
        let zipf = ROWS[3].command(&place(dir.path())).unwrap();
        assert_eq!(zipf, ["neap-work", "zipf", "2", "5000"]);
    }
}
