//! The table of docs/guide/permissions.md: each place is built, and what its row says is asserted. A row that cannot be built on a
//! machine is skipped there by name.

use std::path::Path;
use std::process::Command;

use neap_tests::{Place, Said, exclusive, skip, tool};

/// What opens the door once doctor has said why it is closed.
enum Remedy {
    /// It was open.
    Nothing,
    /// `--device`: with the mode that it has on the host.
    Device(u32),
    /// The udev rule.
    Group,
    /// The device, and the capabilities of neap's file.
    Capabilities,
    /// A place that is entered by other words.
    Instead(&'static [&'static str]),
    /// vm.unprivileged_userfaultfd, for as long as the row takes.
    Sysctl,
    /// There is none.
    None,
}

/// How a row is built: the words that lead there, what doctor blames there, part of its remedy, and what is done.
struct Row {
    place: &'static str,
    into: &'static [&'static str],
    blames: &'static str,
    advises: &'static str,
    remedy: Remedy,
}

const fn row(
    place: &'static str,
    into: &'static [&'static str],
    (blames, advises): (&'static str, &'static str),
    remedy: Remedy,
) -> Row {
    Row {
        place,
        into,
        blames,
        advises,
        remedy,
    }
}

/// What doctor says where a filter stands before the call; where only capabilities are missing; where there is nothing to say.
const FILTER: (&str, &str) = (
    "a seccomp filter refuses userfaultfd(2)",
    "--device /dev/userfaultfd",
);
const FILTER_OF_A_USER: (&str, &str) = ("a seccomp filter refuses userfaultfd(2)", "chmod 666");
const RIGHTS: (&str, &str) = ("takes CAP_SYS_PTRACE or", "vm.unprivileged_userfaultfd=1");
const HIDDEN: (&str, &str) = ("takes CAP_SYS_PTRACE or", "`PrivateDevices=no`");
const NAMESPACE: (&str, &str) = ("that of a user namespace does not count", "--device");
const SOCKET: (&str, &str) = (
    "a directory for neap's socket",
    "a TMPDIR that this user may write to",
);
const NONE: (&str, &str) = ("", "");

/// The words after the read-only view are those of a unit with `ProtectProc=invisible`, `ProcSubset=pid`,
/// `MemoryDenyWriteExecute=`, `User=` and `NoNewPrivileges=`. systemd gives each unit a number.
const UNIT: &[&str] = &[
    "READ-ONLY",
    "HIDDEN-PROC",
    "PROFILE",
    "mdwe",
    "env",
    "INVOCATION_ID=0",
    "USER",
    "--no-new-privs",
];
const UNIT_WITH_CAPABILITY: &[&str] = &[
    "READ-ONLY",
    "HIDDEN-PROC",
    "PROFILE",
    "mdwe",
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--no-new-privs",
    "--inh-caps=+sys_ptrace",
    "--ambient-caps=+sys_ptrace",
];
const RESTRICTED: &[&str] = &[
    "READ-ONLY",
    "PROCESSES",
    "PROFILE",
    "docker",
    "USER",
    "--no-new-privs",
    "--bounding-set=-all",
];
const WITHOUT_PROC: &[&str] = &[
    "unshare",
    "--mount",
    "sh",
    "-c",
    "mount -t tmpfs none /proc && exec \"$@\"",
    "sh",
];

const HOSTS: &[Row] = &[
    row("host: root", &[], NONE, Remedy::Nothing),
    row("host: a user", &["USER"], RIGHTS, Remedy::Device(0o666)),
    row(
        "host: a user of a group",
        &["USER-OF-GROUP"],
        RIGHTS,
        Remedy::Group,
    ),
    row(
        "host: a user, more",
        &["USER"],
        RIGHTS,
        Remedy::Capabilities,
    ),
    row("host: all users", &["USER"], RIGHTS, Remedy::Sysctl),
    row(
        "a hardened unit, with the device",
        UNIT,
        HIDDEN,
        Remedy::Device(0o666),
    ),
    row(
        "a hardened unit, without the device",
        UNIT,
        HIDDEN,
        Remedy::Instead(UNIT_WITH_CAPABILITY),
    ),
    row(
        "a user namespace (`unshare -r`)",
        &["USER", "unshare", "-Ur"],
        NAMESPACE,
        Remedy::Device(0o666),
    ),
    row(
        "a chroot without `/proc`",
        WITHOUT_PROC,
        ("/proc is not mounted", "mount -t proc"),
        Remedy::Instead(&[]),
    ),
    row(
        "a read-only root, other folders noexec",
        &["NO-CODE"],
        NONE,
        Remedy::Nothing,
    ),
    row(
        "a read-only root, no other folder",
        &["NOWHERE"],
        SOCKET,
        Remedy::Instead(&["READ-ONLY"]),
    ),
];

const CONTAINERS: &[Row] = &[
    row(
        "docker, containerd: root",
        &["PROCESSES", "PROFILE", "docker", "DOCKER"],
        FILTER,
        Remedy::Device(0o600),
    ),
    row(
        "docker, containerd: root, more",
        &[
            "PROCESSES",
            "PROFILE",
            "docker+ptrace+nice",
            "DOCKER-WITH-MORE",
        ],
        FILTER,
        Remedy::Device(0o600),
    ),
    row(
        "docker, containerd: a user",
        &["PROCESSES", "PROFILE", "docker", "USER"],
        FILTER_OF_A_USER,
        Remedy::Device(0o666),
    ),
    row(
        "podman, CRI-O: root",
        &["PROCESSES", "PROFILE", "podman", "DOCKER"],
        FILTER,
        Remedy::Device(0o600),
    ),
    // As there: no filter, no such call, and no device.
    row(
        "gVisor",
        &["env", "NEAP_FAIL=userfaultfd:ENOSYS:1:1", "LIBRARY"],
        (
            "or the sandbox that stands in for it, has no userfaultfd(2)",
            "a kernel with CONFIG_USERFAULTFD",
        ),
        Remedy::None,
    ),
    row(
        "podman, rootless",
        &[
            "PROFILE",
            "podman",
            "USER",
            "unshare",
            "-Urpf",
            "--mount-proc",
            "DOCKER",
        ],
        FILTER,
        Remedy::Device(0o666),
    ),
];

const PODS: &[Row] = &[
    row(
        "Kubernetes: no profile",
        &["PROCESSES", "DOCKER"],
        ("takes CAP_SYS_PTRACE or", "--device"),
        Remedy::Device(0o600),
    ),
    row(
        "Kubernetes: restricted, read-only root",
        RESTRICTED,
        FILTER_OF_A_USER,
        Remedy::Device(0o666),
    ),
    row(
        "Kubernetes: user namespaces",
        &[
            "USER",
            "unshare",
            "-Urpf",
            "--mount-proc",
            "PROFILE",
            "docker",
            "DOCKER",
        ],
        FILTER,
        Remedy::Device(0o666),
    ),
];

/// Places that are another by what neap meets there.
const SAME: &[(&str, &str)] = &[
    ("GitHub: a runner", "host: a user"),
    (
        "GitHub: a job with `container:`",
        "docker, containerd: root",
    ),
    ("GitLab: shell executor", "host: a user"),
    ("docker, containerd: privileged", "host: root"),
    ("GitLab: docker executor", "docker, containerd: root"),
    (
        "GitLab: Kubernetes executor",
        "Kubernetes: restricted, read-only root",
    ),
    (
        "Kubernetes: RuntimeDefault, baseline",
        "docker, containerd: root",
    ),
];
/// Built by another test: tests/tests/places.rs.
const PLACES: &[&str] = &["Linux before 6.8"];

/// The cells of each row of the table.
fn table() -> Vec<Vec<String>> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/permissions.md");
    let text = std::fs::read_to_string(guide).expect("the guide");
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| place |"))
        .skip(2);
    let rows = rows.take_while(|line| line.starts_with("| "));
    let cells = |line: &str| {
        line.trim_matches('|')
            .split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    rows.map(cells).collect()
}

fn built() -> impl Iterator<Item = &'static Row> {
    HOSTS.iter().chain(CONTAINERS).chain(PODS)
}

#[test]
fn every_row_of_the_table_is_built() {
    let mut known: Vec<&str> = built().map(|row| row.place).collect();
    known.extend(PLACES);
    known.extend(SAME.iter().map(|(place, _)| *place));
    let table = table();
    let cells = |place: &str| table.iter().find(|cells| cells[0] == place).expect("a row");
    for (place, other) in SAME {
        assert_eq!(cells(place)[2..], cells(other)[2..], "{place}");
    }
    let mut written: Vec<&str> = table.iter().map(|cells| cells[0].as_str()).collect();
    written.sort_unstable();
    known.sort_unstable();
    assert_eq!(written, known);
}

const SYSCTL: &str = "/proc/sys/vm/unprivileged_userfaultfd";

/// The sysctl is as it was once this goes.
struct ForAllUsers(String);

impl ForAllUsers {
    fn allow() -> Option<Self> {
        let before = std::fs::read_to_string(SYSCTL).ok()?;
        std::fs::write(SYSCTL, "1").ok()?;
        Some(Self(before))
    }
}

impl Drop for ForAllUsers {
    fn drop(&mut self) {
        std::fs::write(SYSCTL, &self.0).expect("the sysctl back");
    }
}

/// The name under which a row is skipped.
fn named(test: &str, place: &str) -> String {
    let plain = |letter: char| {
        if letter.is_alphanumeric() {
            letter
        } else {
            '-'
        }
    };
    format!("{test}/{}", place.chars().map(plain).collect::<String>())
}

fn hold(test: &str, rows: &[Row]) {
    let _alone = exclusive();
    let table = table();
    for row in rows {
        let Some(place) = Place::new(&named(test, row.place), row.into) else {
            continue;
        };
        println!("{}", row.place);
        let cells = table
            .iter()
            .find(|cells| cells[0] == row.place)
            .expect("a row of the table");
        if !row.blames.is_empty() {
            let check = match row.blames.split(' ').next() {
                Some("/proc") => "/proc",
                _ if row.blames == SOCKET.0 => "a program",
                _ => "userfaultfd",
            };
            place.must_refuse_by(check, row.blames, row.advises);
        }
        if let Remedy::None = row.remedy {
            assert_eq!(cells[2], "no");
            continue;
        }
        let allowed = matches!(row.remedy, Remedy::Sysctl).then(ForAllUsers::allow);
        if let Some(None) = allowed {
            skip(&named(test, row.place), "the sysctl cannot be set here");
            continue;
        }
        match mend(row, place) {
            Ok(place) => holds(&place, cells),
            Err(why) => skip(&named(test, row.place), &why),
        }
    }
}

/// Does what the row advises.
fn mend(row: &Row, place: Place) -> Result<Place, String> {
    match row.remedy {
        Remedy::Nothing | Remedy::None | Remedy::Sysctl => {}
        Remedy::Device(mode) => {
            place.add_device();
            place.set_mode(mode);
        }
        Remedy::Group => {
            place.add_device();
            place.must_refuse("mode 600, owner 0:0", "or a group");
            place.give_to_group();
        }
        Remedy::Capabilities => {
            place.add_device();
            place.set_mode(0o666);
            let setcap = tool("setcap").ok_or("setcap is not installed")?;
            let given = Command::new(setcap)
                .arg("cap_sys_ptrace,cap_sys_nice+ep")
                .arg(place.neap())
                .status();
            if !given.is_ok_and(|status| status.success()) {
                return Err("files of this folder take no capabilities".to_owned());
            }
        }
        Remedy::Instead(words) => {
            return Place::new(&named("mended", row.place), words)
                .ok_or_else(|| "the mended place cannot be built".to_owned());
        }
    }
    Ok(place)
}

/// What the last three cells say.
fn holds(place: &Place, cells: &[String]) {
    assert_eq!(cells[2], "yes");
    let forks = match cells[3].as_str() {
        "announced" => "ok",
        "passed on" => "limited",
        other => panic!("{other}: no word of this table"),
    };
    let report = place.must_manage(forks);
    let priority = Said::of(&report, "cpu priority").verdict;
    assert_eq!(
        priority == "ok",
        cells[4] == "yes",
        "{priority}: {}",
        cells[0]
    );
}

#[test]
fn hosts_and_their_users_have_what_the_table_says() {
    hold("hosts_and_their_users_have_what_the_table_says", HOSTS);
}

#[test]
fn containers_have_what_the_table_says() {
    hold("containers_have_what_the_table_says", CONTAINERS);
}

#[test]
fn pods_have_what_the_table_says() {
    hold("pods_have_what_the_table_says", PODS);
}
