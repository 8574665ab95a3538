//! A root folder that holds what a test put there and nothing else of this machine: a clean place to install into.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::user::install;
use crate::{Need, Run, require};

/// What is done before the program starts: its own list of processes, and the device nodes of a container. `$0` is the root.
const ENTER: &str = r#"mount -t proc proc "$0/proc" && mount -t tmpfs -o mode=755 none "$0/dev" || exit 77
for node in null zero urandom userfaultfd; do
    [ -e "/dev/$node" ] && : >"$0/dev/$node" && mount --bind "/dev/$node" "$0/dev/$node"
done
exec chroot "$0" "$@""#;

/// The folder.
#[derive(Debug)]
pub struct Root {
    dir: TempDir,
}

impl Root {
    /// An empty one, or the reason why the test `name` is skipped, said aloud.
    ///
    /// # Panics
    /// If no folder can be made.
    #[must_use]
    pub fn for_test(name: &str) -> Option<Self> {
        let needs = [
            Need::Neap,
            Need::Root,
            Need::Userfaultfd,
            Need::Tool("unshare"),
            Need::Tool("chroot"),
        ];
        if !require(name, &needs) {
            return None;
        }
        let root = Self {
            dir: tempfile::tempdir().expect("a temporary folder"),
        };
        let open = Permissions::from_mode(0o755);
        fs::set_permissions(root.path(), open).expect("our own folder");
        for dir in ["proc", "dev", "bin", "etc", "root", "tmp"] {
            fs::create_dir(root.path().join(dir)).expect("our own folder");
        }
        let sticky = Permissions::from_mode(0o1777);
        fs::set_permissions(root.path().join("tmp"), sticky).expect("our own folder");
        Some(root)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Puts a program there, under `/bin`, with its dynamic linker and libraries at their own places.
    ///
    /// # Panics
    /// If a file cannot be copied.
    pub fn add(&self, program: &Path) -> PathBuf {
        self.add_libraries(program);
        let name = program.file_name().expect("a file has a name");
        let to = Path::new("/bin").join(name);
        self.place(program, &to);
        to
    }

    /// Puts there what a program needs, and not itself.
    ///
    /// # Panics
    /// If a file cannot be copied.
    pub fn add_libraries(&self, program: &Path) {
        for library in needed(program) {
            self.place(&library, &library);
        }
    }

    fn place(&self, file: &Path, to: &Path) {
        let to = self.path().join(to.strip_prefix("/").unwrap_or(to));
        fs::create_dir_all(to.parent().expect("a file lies in a folder")).expect("our own folder");
        if !to.exists() {
            install(&fs::canonicalize(file).expect("a file"), &to, "755");
        }
    }

    /// A command in it, with no variable of ours but the path.
    #[must_use]
    pub fn run(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Run {
        let enter = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", ENTER];
        let enter = enter.map(OsString::from).into_iter();
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        let run = Run::new(enter.chain([self.path().into()]).chain(words));
        ["HOME", "TMPDIR", "LD_PRELOAD", "XDG_RUNTIME_DIR"]
            .iter()
            .fold(run, |run, name| run.without(name))
    }
}

/// The dynamic linker of a program and its libraries: none for a static one, and musl's linker is its only library.
fn needed(program: &Path) -> Vec<PathBuf> {
    let Some(linker) = interpreter(program) else {
        return Vec::new();
    };
    if linker.to_string_lossy().contains("musl") {
        return vec![linker];
    }
    let text = said(Command::new("ldd").arg(program));
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    words.map(PathBuf::from).collect()
}

/// The dynamic linker that a program asks for; `None` for a static one.
#[must_use]
pub fn interpreter(program: &Path) -> Option<PathBuf> {
    let text = said(Command::new("readelf").arg("-lW").arg(program));
    let named = text.split_once("program interpreter: ")?.1;
    Some(named.split(']').next()?.into())
}

fn said(command: &mut Command) -> String {
    let output = command.env("LC_ALL", "C").output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
