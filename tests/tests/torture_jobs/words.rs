//! What neap may say of jobs to which everything is done.

/// What commands may say of a job that ends, was frozen, or is asked for something else at that moment.
pub const REFUSALS: [&str; 11] = [
    "the job is frozen already",
    "is not frozen",
    "was thawed meanwhile",
    "another request that lasts is under way",
    "no job of this user is called",
    "no job of this user runs",
    " runs there",
    "(EAGAIN)",
    "it has ended",
    "has ended meanwhile",
    "a job named ",
];

/// What neap may say of jobs that want more than there is, and of programs that are killed while they fork.
pub const WARNINGS: [&str; 7] = [
    "of pages stay in the pool",
    "nothing more can be reclaimed",
    "more than its limit of",
    "more could not be reclaimed yet",
    "of the programs could not leave",
    // Its program was killed, or told to end.
    "its parent was killed while it forked",
    "a forked child could not take over its memory",
];

/// Whether a line is one that may come; `gone`: after the end of the service.
pub fn is_expected(line: &str, gone: bool) -> bool {
    let last = [
        "programs that depend on it end with it",
        "it does not answer",
        "it is about to end",
        "no service named all runs",
        "the engine ended while it held pages",
    ];
    let gone = gone && last.iter().any(|known| line.contains(known));
    gone || WARNINGS.iter().any(|known| line.contains(known))
}
