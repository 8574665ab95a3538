//! What this process may do, as the kernel tells of it.

use std::env;
use std::fs;

/// Bits of linux/capability.h.
const SYS_PTRACE: u32 = 19;
const SYS_NICE: u32 = 23;
/// Where the machine's own user namespace is (linux/nsfs.h, USER_NS_INIT_INO).
const OF_THE_MACHINE: &str = "user:[4026531837]";
/// What systemd sets for each unit.
const UNIT: &str = "INVOCATION_ID";

/// Capabilities, filters and namespaces of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rights {
    pub uid: u32,
    effective: u64,
    ambient: u64,
    bounding: u64,
    /// A seccomp filter stands before the system calls.
    pub filtered: bool,
    pub no_new_privileges: bool,
    /// In a user namespace, whose capabilities say nothing to what asks for those of the machine.
    pub in_user_namespace: bool,
    /// Started by a unit of systemd, or by something that was.
    pub in_unit: bool,
}

impl Rights {
    pub fn own() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let namespace = fs::read_link("/proc/self/ns/user").unwrap_or_default();
        Self {
            in_unit: env::var_os(UNIT).is_some(),
            ..Self::read(&status, &namespace.to_string_lossy())
        }
    }

    fn read(status: &str, namespace: &str) -> Self {
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let set =
            |name| field(name).map_or(0, |text| u64::from_str_radix(text.trim(), 16).unwrap_or(0));
        let is = |name, value| field(name).is_some_and(|text| text.trim() == value);
        // Real, effective, saved, of the file system.
        let uid = field("Uid:").and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
        Self {
            uid: uid.unwrap_or(u32::MAX),
            effective: set("CapEff:"),
            ambient: set("CapAmb:"),
            bounding: set("CapBnd:"),
            filtered: is("Seccomp:", "2"),
            no_new_privileges: is("NoNewPrivs:", "1"),
            in_user_namespace: namespace.starts_with("user:[") && namespace != OF_THE_MACHINE,
            in_unit: false,
        }
    }

    /// Whether a program that this process executes has CAP_SYS_PTRACE: root has all that are not withheld, another
    /// user the ambient ones. Those of the file `neap` end with it.
    pub fn programs_trace(self) -> bool {
        let of_root = self.uid == 0 && self.bounding >> SYS_PTRACE & 1 == 1;
        of_root || self.ambient >> SYS_PTRACE & 1 == 1
    }

    /// What neap may do that a program of this user may not, in a line.
    pub fn describe(self) -> String {
        let user = match self.uid {
            0 => "root".to_owned(),
            uid => format!("user {uid}"),
        };
        let names = [(SYS_PTRACE, "CAP_SYS_PTRACE"), (SYS_NICE, "CAP_SYS_NICE")];
        let held = names.map(|(bit, name)| match self.effective >> bit & 1 {
            1 => format!(", {name}"),
            _ => format!(", no {name}"),
        });
        let marks = [
            (self.filtered, ", a seccomp filter"),
            (self.no_new_privileges, ", no_new_privs"),
            (self.in_user_namespace, ", in a user namespace"),
        ];
        let marks = marks.map(|(there, mark)| if there { mark } else { "" });
        format!("{user}{}{}", held.concat(), marks.concat())
    }

    /// How this process comes by a capability, for [`Wanted`]; empty where there is no way.
    pub fn way_to(self, wanted: Wanted) -> String {
        let (bit, name, small) = match wanted {
            Wanted::Trace => (SYS_PTRACE, "SYS_PTRACE", "cap_sys_ptrace"),
            Wanted::Nice => (SYS_NICE, "SYS_NICE", "cap_sys_nice"),
        };
        if self.in_user_namespace {
            return format!("outside of the user namespace, where CAP_{name} counts");
        }
        if self.bounding >> bit & 1 == 0 {
            return format!(
                "--cap-add {name} of docker and podman, or `capabilities: add` of the pod"
            );
        }
        if self.no_new_privileges {
            return format!(
                "without no_new_privs (allowPrivilegeEscalation: false of a pod, NoNewPrivileges= of a unit), which \
                 keeps `setcap {small}+ep` on neap from having an effect"
            );
        }
        format!("`setcap {small}+ep $(command -v neap)` as root, or root")
    }
}

/// A capability that neap would like to have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    /// CAP_SYS_PTRACE
    Trace,
    /// CAP_SYS_NICE
    Nice,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const STATUS: &str = "Name:\tneap\nUid:\t1000\t1000\t1000\t1000\nCapPrm:\t0\nCapEff:\t0000000000080000\n\
        CapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000000\nNoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n";
    const MACHINE: &str = OF_THE_MACHINE;

    /// A plain user of a machine without filters.
    pub fn user() -> Rights {
        Rights::read(&STATUS.replace("0000000000080000", "0"), MACHINE)
    }

    /// Root, without some capabilities.
    pub fn root(withheld: u64) -> Rights {
        Rights {
            uid: 0,
            effective: !withheld,
            bounding: !withheld,
            ..user()
        }
    }

    #[test]
    fn a_capability_of_the_file_is_not_the_programs() {
        let own = Rights::read(STATUS, MACHINE);
        assert_eq!((own.uid, own.programs_trace()), (1000, false));
        assert!(
            own.describe()
                .starts_with("user 1000, CAP_SYS_PTRACE, no CAP_SYS_NICE")
        );
        let ambient = STATUS.replace("CapAmb:\t0000000000000000", "CapAmb:\t0000000000080000");
        assert!(Rights::read(&ambient, MACHINE).programs_trace());
        assert!(root(0).programs_trace());
        assert!(!root(1 << SYS_PTRACE).programs_trace());
    }

    #[test]
    fn filters_and_namespaces_are_seen() {
        let filtered = STATUS.replace("Seccomp:\t0", "Seccomp:\t2");
        let strict = filtered.replace("NoNewPrivs:\t0", "NoNewPrivs:\t1");
        let own = Rights::read(&strict, "user:[4026532177]");
        assert!(own.filtered && own.no_new_privileges && own.in_user_namespace);
        let plain = Rights::read(STATUS, MACHINE);
        assert!(!plain.filtered && !plain.no_new_privileges && !plain.in_user_namespace);
        // Where /proc is not mounted nothing is known, and nothing is blamed.
        assert!(!Rights::read("", "").in_user_namespace);
    }

    #[test]
    fn each_place_has_its_own_way_to_a_capability() {
        let way = |rights: Rights| rights.way_to(Wanted::Trace);
        assert!(way(user()).starts_with("`setcap cap_sys_ptrace+ep"));
        assert!(way(root(1 << SYS_PTRACE)).starts_with("--cap-add SYS_PTRACE"));
        let strict = Rights {
            no_new_privileges: true,
            ..user()
        };
        assert!(way(strict).starts_with("without no_new_privs"));
        let inner = Rights {
            in_user_namespace: true,
            ..user()
        };
        assert!(way(inner).starts_with("outside of the user namespace"));
    }
}
