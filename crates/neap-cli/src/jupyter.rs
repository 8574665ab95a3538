//! `neap jupyter install`: a kernel of Jupyter whose cells run within a limit.
//!
//! An interrupt comes as a message: as a signal it would reach the whole process group, neap and the kernel, and neap would
//! pass it on once more.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde::Serialize;

use crate::env::Lookup;
use crate::failure::Failure;
use crate::flags::{JupyterCommand, KernelArgs};
use crate::machine::Root;
use crate::run::{command, limit};
use crate::{env, talk};

/// What Jupyter reads, `kernel.json`.
#[derive(Serialize)]
struct Spec {
    argv: Vec<String>,
    display_name: String,
    language: &'static str,
    interrupt_mode: &'static str,
    metadata: Metadata,
}

#[derive(Serialize)]
struct Metadata {
    debugger: bool,
}

pub fn run(what: &JupyterCommand) -> ExitCode {
    let JupyterCommand::Install(args) = what;
    match install(args) {
        Ok(dir) => {
            talk::note(&format!(
                "kernel {} installed: {}",
                args.name,
                dir.display()
            ));
            ExitCode::SUCCESS
        }
        Err(failure) => {
            talk::say(&failure.lines());
            ExitCode::from(1)
        }
    }
}

fn install(args: &KernelArgs) -> Result<PathBuf, Failure> {
    limit::limit(&Root::real(), "--memory", Some(&args.memory))?;
    let path = std::env::var_os("PATH");
    let python = command::find(&args.python, path.as_deref())?;
    if !has_kernel(&python)? {
        return Err(Failure::NoKernel(python));
    }
    let what = "/proc/self/exe";
    let neap = std::env::current_exe().map_err(|source| Failure::Machine { what, source })?;
    let data = data_folder(args.prefix.as_deref(), &env::own).ok_or(Failure::NoHome)?;
    let dir = data.join("kernels").join(&args.name);
    let text = serde_json::to_string_pretty(&spec(&neap, &python, args)).unwrap_or_default();
    match write(&dir, &text) {
        Ok(()) => Ok(dir),
        Err(source) => Err(Failure::Output {
            flag: "the kernel's folder",
            path: dir,
            source,
        }),
    }
}

/// Whether this Python finds what the kernel is started by. Nothing of it is run.
fn has_kernel(python: &Path) -> Result<bool, Failure> {
    const LOOK: &str =
        "import importlib.util as u, sys; sys.exit(not u.find_spec('ipykernel_launcher'))";
    let mut look = Command::new(python);
    look.args(["-c", LOOK]).stdin(Stdio::null());
    look.stdout(Stdio::null()).stderr(Stdio::null());
    let status = look.status().map_err(Failure::Spawn)?;
    Ok(status.success())
}

fn write(dir: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join("kernel.json"), format!("{text}\n"))
}

/// Where Jupyter looks for what is a user's own, or what a prefix holds.
fn data_folder(prefix: Option<&Path>, own: Lookup<'_>) -> Option<PathBuf> {
    let below = |name: &str, rest: &str| own(name).map(|dir| Path::new(&dir).join(rest));
    prefix
        .map(|prefix| prefix.join("share/jupyter"))
        .or_else(|| below("JUPYTER_DATA_DIR", ""))
        .or_else(|| below("XDG_DATA_HOME", "jupyter"))
        .or_else(|| below("HOME", ".local/share/jupyter"))
}

fn spec(neap: &Path, python: &Path, args: &KernelArgs) -> Spec {
    let text = |word: &OsStr| word.to_string_lossy().into_owned();
    let mut argv = vec![
        text(neap.as_os_str()),
        "run".into(),
        "-m".into(),
        args.memory.clone(),
    ];
    if args.require {
        argv.push("--require".into());
    }
    argv.extend(["--".into(), text(python.as_os_str())]);
    argv.extend(["-m", "ipykernel_launcher", "-f", "{connection_file}"].map(String::from));
    Spec {
        argv,
        display_name: format!("Python 3 in {} (neap)", args.memory),
        language: "python",
        interrupt_mode: "message",
        metadata: Metadata { debugger: false },
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn args(prefix: &Path) -> KernelArgs {
        KernelArgs {
            memory: "4G".into(),
            name: "neap".into(),
            python: "true".into(), // it says yes
            prefix: Some(prefix.to_owned()),
            require: true,
        }
    }

    #[test]
    fn a_kernel_is_started_under_neap_and_interrupted_by_message() {
        let prefix = tempfile::tempdir().unwrap();
        let dir = install(&args(prefix.path())).unwrap();
        assert_eq!(dir, prefix.path().join("share/jupyter/kernels/neap"));
        let text = fs::read_to_string(dir.join("kernel.json")).unwrap();
        let spec: serde_json::Value = serde_json::from_str(&text).unwrap();
        let words: Vec<_> = spec["argv"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect();
        assert_eq!(words[1..6], ["run", "-m", "4G", "--require", "--"]);
        assert!(words[6].starts_with('/') && words[6].ends_with("/true"));
        assert_eq!(
            words[7..],
            ["-m", "ipykernel_launcher", "-f", "{connection_file}"]
        );
        assert_eq!(spec["interrupt_mode"], "message");
    }

    #[test]
    fn a_limit_that_cannot_be_read_or_no_python_installs_nothing() {
        let prefix = tempfile::tempdir().unwrap();
        for bad in [
            KernelArgs {
                memory: "4X".into(),
                ..args(prefix.path())
            },
            KernelArgs {
                python: "no-such-python".into(),
                ..args(prefix.path())
            },
        ] {
            install(&bad).unwrap_err();
        }
        let bare = KernelArgs {
            python: "false".into(),
            ..args(prefix.path())
        };
        let failure = install(&bare).unwrap_err();
        assert_eq!(failure.code(), "E0115");
        assert_eq!(fs::read_dir(prefix.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_made_has_a_code() {
        let failure = install(&args(Path::new("/proc/self/status"))).unwrap_err();
        assert_eq!(failure.code(), "E0107");
    }

    #[test]
    fn the_folder_is_where_jupyter_looks() {
        let own =
            |wanted: &'static str| move |name: &str| (name == wanted).then(|| OsString::from("/x"));
        let found = |wanted| data_folder(None, &own(wanted)).unwrap();
        assert_eq!(found("JUPYTER_DATA_DIR"), Path::new("/x"));
        assert_eq!(found("XDG_DATA_HOME"), Path::new("/x/jupyter"));
        assert_eq!(found("HOME"), Path::new("/x/.local/share/jupyter"));
        assert_eq!(data_folder(None, &|_| None), None);
    }
}
