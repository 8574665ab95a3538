//! What the agent may ask of the kernel: a seccomp(2) filter.
//!
//! The agent shares the program's memory, so whoever has the program in hand has the agent, too. A program that gives up its user,
//! or shuts itself in by a filter of its own, must not get out that way. So the agent can open, send and start nothing: it
//! has its few descriptors, and these calls.

use super::{ARCH, call, nr};

/// Whatever their arguments. Each acts on memory that the program has in hand anyway, on the descriptors of the agent, or
/// on itself; RESTART_SYSCALL is the kernel's own after a stop.
const ALLOWED: [usize; 10] = [
    nr::SENDMSG,
    nr::RECVMSG,
    nr::MADVISE,
    nr::PPOLL,
    nr::GETTID,
    nr::MUNLOCK,
    nr::WRITE,
    nr::PIDFD_SEND_SIGNAL,
    nr::EXIT,
    nr::RESTART_SYSCALL,
];

/// Of ioctl(2) those of a userfaultfd (0xAA): not those of a terminal, which could be standard error.
const UFFD_KIND: u32 = 0xaa00;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const SECOND_ARGUMENT: u32 = 24; // its lower half: both targets are little-endian

const ALLOW: u32 = 0x7fff_0000;
/// The call fails with EPERM.
const REFUSE: u32 = 0x0005_0001;

/// `struct sock_filter`
#[repr(C)]
#[derive(Clone, Copy)]
struct Step {
    code: u16,
    if_so: u8,
    if_not: u8,
    value: u32,
}

const fn step(code: u16, value: u32) -> Step {
    Step {
        code,
        if_so: 0,
        if_not: 0,
        value,
    }
}

const fn load(offset: u32) -> Step {
    step(0x20, offset)
}

const fn answer(value: u32) -> Step {
    step(0x06, value)
}

/// Goes so many steps further if the loaded word is `value`, or is not.
const fn compare(value: u32, if_so: u8, if_not: u8) -> Step {
    Step {
        code: 0x15,
        if_so,
        if_not,
        value,
    }
}

const HEAD: usize = 4;
const REFUSED: usize = HEAD + ALLOWED.len();
const IOCTL: usize = REFUSED + 1;
const ALLOWS: usize = IOCTL + 4;
const STEPS: usize = ALLOWS + 1;

static PROGRAM: [Step; STEPS] = {
    let mut program = [answer(REFUSE); STEPS];
    program[0] = load(ARCHITECTURE);
    program[1] = compare(ARCH, 0, (REFUSED - 2) as u8);
    program[2] = load(NUMBER);
    program[3] = compare(nr::IOCTL as u32, (IOCTL - 4) as u8, 0);
    let mut i = 0;
    while i < ALLOWED.len() {
        let at = HEAD + i;
        program[at] = compare(ALLOWED[i] as u32, (ALLOWS - at - 1) as u8, 0);
        i += 1;
    }
    program[IOCTL] = load(SECOND_ARGUMENT);
    program[IOCTL + 1] = step(0x54, 0xff00); // and
    program[IOCTL + 2] = compare(UFFD_KIND, 1, 0);
    program[ALLOWS] = answer(ALLOW);
    program
};

/// `struct sock_fprog`
#[repr(C)]
struct Program {
    steps: u16,
    first: *const Step,
}

/// Confines the calling task; needs no_new_privs. Whether the kernel does that.
pub fn install() -> bool {
    const SET_MODE_FILTER: usize = 1;
    /// SECCOMP_FILTER_FLAG_SPEC_ALLOW: it holds no secret that speculation could tell of.
    const FLAGS: usize = 4;
    let program = Program {
        steps: STEPS as u16,
        first: (&raw const PROGRAM).cast(),
    };
    let at = (&raw const program) as usize;
    call(nr::SECCOMP, [SET_MODE_FILTER, FLAGS, at, 0, 0, 0]) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would make of the program.
    fn run(arch: u32, number: usize, second: u32) -> u32 {
        let (mut at, mut word) = (0, 0);
        loop {
            let Step {
                code,
                if_so,
                if_not,
                value,
            } = PROGRAM[at];
            at += 1;
            match code {
                0x20 => {
                    word = match value {
                        NUMBER => number as u32,
                        ARCHITECTURE => arch,
                        _ => second,
                    }
                }
                0x54 => word &= value,
                0x15 if word == value => at += usize::from(if_so),
                0x15 => at += usize::from(if_not),
                _ => return value,
            }
        }
    }

    #[test]
    fn what_the_agent_needs_is_allowed_and_nothing_else() {
        let needed = |number| number == nr::IOCTL || ALLOWED.contains(&number);
        for number in (0..600).chain([0x4000_0000 + nr::SENDMSG]) {
            let expected = if needed(number) { ALLOW } else { REFUSE };
            assert_eq!(run(ARCH, number, 0xc028_aa05), expected, "{number}");
            assert_eq!(run(ARCH + 1, number, 0xc028_aa05), REFUSE, "{number}");
        }
        const TIOCSTI: u32 = 0x5412;
        assert_eq!(run(ARCH, nr::IOCTL, TIOCSTI), REFUSE);
    }
}
