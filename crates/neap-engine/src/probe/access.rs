//! Whether the programs of a job get a userfaultfd that serves the kernel's own faults, and if not, what refuses it.
//!
//! Two doors lead to one. The device: who holds it open may make userfaultfds and may hand it on, whatever his
//! capabilities and his filter are, for the kernel sees an ioctl. The system call: it is refused by default filters of
//! containers, and otherwise takes CAP_SYS_PTRACE or a sysctl. It is the *program* that makes the call, so that a
//! capability that only neap has opens nothing.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use neap_sys::Uffd;

use super::rights::Rights;
use crate::engine::{device_path, open_device};

/// How programs get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    Device,
    Call,
}

/// Why they do not, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What refuses.
    pub why: String,
    /// What to do about it.
    pub remedy: String,
}

/// What became of opening the device.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Device {
    Works,
    Missing,
    /// The mode of the node keeps this user out.
    Closed {
        mode: u32,
        uid: u32,
        gid: u32,
    },
    /// The device cgroup of a container refuses it.
    Barred,
    Odd(String),
}

/// What became of the system call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    Works,
    /// The call is there, and this user may serve the faults of programs only.
    Unprivileged,
    /// Refused whatever is asked for, though a filter is the only one to do that.
    Filtered(String),
    Absent,
    Odd(String),
}

/// Where neap is, as far as a userfaultfd is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    path: PathBuf,
    device: Device,
    call: Call,
    rights: Rights,
    /// `vm.unprivileged_userfaultfd` is 1.
    open_to_all: bool,
}

impl Place {
    /// Tries both doors.
    pub fn look() -> Self {
        let rights = Rights::own();
        let sysctl = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
        Self {
            path: device_path(),
            device: try_device(),
            call: try_call(rights.filtered),
            rights,
            open_to_all: sysctl.is_ok_and(|text| text.trim() == "1"),
        }
    }

    /// The door that is open to programs.
    pub fn door(&self) -> Result<Door, Refusal> {
        let may_call = self.open_to_all || self.rights.programs_trace();
        match (&self.device, &self.call) {
            (Device::Works, _) => Ok(Door::Device),
            (_, Call::Works) if may_call => Ok(Door::Call),
            _ => Err(self.refusal()),
        }
    }

    fn refusal(&self) -> Refusal {
        let path = self.path.display();
        let call = match &self.call {
            Call::Works => {
                "only neap may make a userfaultfd, by the capability of its file, and the program would have to".to_owned()
            }
            Call::Unprivileged if self.rights.in_user_namespace => {
                "userfaultfd(2) takes CAP_SYS_PTRACE, and that of a user namespace does not count".to_owned()
            }
            Call::Unprivileged => "userfaultfd(2) takes CAP_SYS_PTRACE or vm.unprivileged_userfaultfd=1".to_owned(),
            Call::Filtered(word) => {
                format!("a seccomp filter refuses userfaultfd(2) under any capability ({word})")
            }
            Call::Absent => "this kernel, or the sandbox that stands in for it, has no userfaultfd(2)".to_owned(),
            Call::Odd(error) => error.clone(),
        };
        let device = match &self.device {
            Device::Works => String::new(),
            Device::Missing => format!("there is no {path}"),
            Device::Closed { mode, uid, gid } => {
                format!("{path} is not this user's to open (mode {mode:o}, owner {uid}:{gid})")
            }
            Device::Barred => format!("the container's device rules bar {path}"),
            Device::Odd(error) => error.clone(),
        };
        Refusal {
            why: format!("{call}, and {device}"),
            remedy: self.remedy(),
        }
    }

    fn remedy(&self) -> String {
        let path = self.path.display();
        let filtered = matches!(self.call, Call::Filtered(_));
        let sysctl = match filtered || self.call == Call::Absent {
            true => "",
            false => ", or `sysctl vm.unprivileged_userfaultfd=1` there",
        };
        match &self.device {
            _ if self.call == Call::Absent => "a kernel with CONFIG_USERFAULTFD".to_owned(),
            Device::Closed { .. } => format!(
                "`chmod 666 {path}`, or a group, as root of the host (a container's node keeps its owner and mode){sysctl}"
            ),
            Device::Missing if self.rights.in_unit => {
                let ambient = match filtered || self.rights.in_user_namespace {
                    true => "",
                    false => " or `AmbientCapabilities=CAP_SYS_PTRACE`",
                };
                format!(
                    "`PrivateDevices=no`{ambient} where a unit of systemd hides {path}, which its user must be able to open{sysctl}"
                )
            }
            _ if filtered || self.rights.in_user_namespace || self.device == Device::Barred => {
                let open = match self.rights.uid {
                    0 => "",
                    _ => ", which `chmod 666 /dev/userfaultfd` on the host opens for this user",
                };
                format!(
                    "--device /dev/userfaultfd of docker and podman, or a device plugin of Kubernetes{open}{sysctl}"
                )
            }
            _ => format!(
                "root, or `sysctl vm.unprivileged_userfaultfd=1` as root, or in a container --device {path}"
            ),
        }
    }
}

fn try_device() -> Device {
    let error = match open_device() {
        Ok(device) => {
            return match Uffd::create(Some(device.as_fd())) {
                Ok(_) => Device::Works,
                Err(error) => Device::Odd(format!("{}: {error}", device_path().display())),
            };
        }
        Err(error) => error,
    };
    let node = fs::metadata(device_path());
    match node {
        Ok(node) if error.is_denied() => Device::Closed {
            mode: node.mode() & 0o777,
            uid: node.uid(),
            gid: node.gid(),
        },
        Ok(_) if error.is_refused() => Device::Barred,
        _ if error.is_missing() => Device::Missing,
        _ => Device::Odd(error.to_string()),
    }
}

/// One for faults of programs only takes no right at all: where even that is refused, something else does.
fn try_call(filtered: bool) -> Call {
    let Err(error) = Uffd::create(None) else {
        return Call::Works;
    };
    match Uffd::create_for_programs_only() {
        Ok(_) => Call::Unprivileged,
        // Linux before 5.11 knows no such flag.
        Err(again) if again.is_unknown_flag() && error.is_refused() => Call::Unprivileged,
        Err(again) if filtered => Call::Filtered(again.word()),
        Err(again) if again.is_unknown_call() => Call::Absent,
        Err(again) => Call::Odd(again.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rights::tests::{root, user};
    use super::*;

    fn place(device: Device, call: Call, rights: Rights) -> Place {
        Place {
            path: "/dev/userfaultfd".into(),
            device,
            call,
            rights,
            open_to_all: false,
        }
    }

    const CLOSED: Device = Device::Closed {
        mode: 0o600,
        uid: 0,
        gid: 0,
    };

    #[test]
    fn the_device_is_enough_whatever_else_is_refused() {
        let filtered = Call::Filtered("Operation not permitted".to_owned());
        for rights in [user(), root(!0)] {
            let place = place(Device::Works, filtered.clone(), rights);
            assert_eq!(place.door(), Ok(Door::Device));
        }
    }

    #[test]
    fn a_capability_of_neaps_file_opens_nothing() {
        let mut place = place(CLOSED, Call::Works, user());
        let refusal = place.door().unwrap_err();
        assert!(refusal.why.starts_with("only neap may"), "{refusal:?}");
        assert!(refusal.remedy.starts_with("`chmod 666"), "{refusal:?}");
        place.open_to_all = true;
        assert_eq!(place.door(), Ok(Door::Call));
    }

    #[test]
    fn a_filter_is_blamed_and_no_capability_is_promised() {
        for word in ["Operation not permitted", "Function not implemented"] {
            let call = Call::Filtered(word.to_owned());
            let refusal = place(Device::Missing, call.clone(), root(0))
                .door()
                .unwrap_err();
            assert!(
                refusal.why.starts_with("a seccomp filter refuses"),
                "{refusal:?}"
            );
            assert!(refusal.remedy.starts_with("--device"), "{refusal:?}");
            assert!(!refusal.remedy.contains("cap-add") && !refusal.remedy.contains("sysctl"));
            let refusal = place(CLOSED, call.clone(), user()).door().unwrap_err();
            assert!(refusal.remedy.starts_with("`chmod 666"), "{refusal:?}");
            assert!(!refusal.remedy.contains("sysctl"), "{refusal:?}");
            let refusal = place(Device::Barred, call, user()).door().unwrap_err();
            assert!(refusal.remedy.contains("chmod 666"), "{refusal:?}");
        }
    }

    #[test]
    fn a_plain_user_is_told_of_the_device_and_of_the_sysctl() {
        let refusal = place(CLOSED, Call::Unprivileged, user())
            .door()
            .unwrap_err();
        assert!(refusal.why.contains("mode 600, owner 0:0"), "{refusal:?}");
        assert!(refusal.remedy.contains("chmod 666") && refusal.remedy.contains("sysctl"));
        let refusal = place(Device::Missing, Call::Unprivileged, user()).door();
        assert!(refusal.unwrap_err().remedy.contains("sysctl"));
    }

    #[test]
    fn a_unit_that_hides_the_devices_is_told_how_not_to() {
        let mut unit = user();
        unit.in_unit = true;
        let remedy = |call| {
            let refusal = place(Device::Missing, call, unit).door();
            refusal.unwrap_err().remedy
        };
        let plain = remedy(Call::Unprivileged);
        assert!(
            plain.starts_with("`PrivateDevices=no` or `Ambient"),
            "{plain}"
        );
        let filtered = remedy(Call::Filtered("Operation not permitted".to_owned()));
        assert!(
            filtered.starts_with("`PrivateDevices=no` where a unit"),
            "{filtered}"
        );
    }

    #[test]
    fn where_there_is_none_nobody_is_sent_for_rights() {
        let refusal = place(Device::Missing, Call::Absent, root(0))
            .door()
            .unwrap_err();
        assert_eq!(refusal.remedy, "a kernel with CONFIG_USERFAULTFD");
    }
}
