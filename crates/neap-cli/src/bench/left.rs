//! What a command leaves running under neap, which waits for it.

/// The command's end, as neap tells it.
#[derive(Debug, Default)]
pub struct Left {
    /// When it was seen first, in nanoseconds.
    ended: Option<u64>,
    told: bool,
}

impl Left {
    /// Looks, at `now`, whether the command has `ended` and neap has not; after `patience` nanoseconds of that,
    /// returns once what neap waits for.
    pub fn look(
        &mut self,
        ended: bool,
        (now, patience): (u64, u64),
        waited_for: impl FnOnce() -> String,
    ) -> Option<String> {
        let since = match (self.ended, ended) {
            (Some(since), _) => since,
            (None, true) => *self.ended.insert(now),
            (None, false) => return None,
        };
        if self.told || now.saturating_sub(since) <= patience {
            return None;
        }
        // Nothing while neap itself takes long to end.
        let waited_for = waited_for();
        self.told = !waited_for.is_empty();
        self.told.then(|| {
            format!(
                "the command has ended and left processes running, for which neap waits: {waited_for}; \
                 try: --patience SECONDS"
            )
        })
    }

    /// Whether neap waits for what the command left, not for the command and not for itself.
    pub fn is_running(&self, waited_for: impl FnOnce() -> String) -> bool {
        self.ended.is_some() && !waited_for().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_left_is_told_once_and_only_where_there_is_something() {
        let mut left = Left::default();
        let sleep = || "sleep (8)".to_owned();
        assert_eq!(left.look(false, (90, 5), sleep), None, "it runs");
        assert!(!left.is_running(sleep));
        assert_eq!(left.look(true, (100, 5), sleep), None, "it has just ended");
        assert_eq!(left.look(true, (105, 5), sleep), None);
        assert_eq!(left.look(true, (106, 5), String::new), None, "neap ends");
        let line = left.look(true, (107, 5), sleep).expect("a line");
        assert!(
            line.contains("for which neap waits: sleep (8); try"),
            "{line}"
        );
        assert_eq!(left.look(true, (200, 5), sleep), None, "it was told");
    }

    #[test]
    fn a_neap_that_ends_slowly_leaves_nothing_running() {
        let mut left = Left::default();
        assert_eq!(left.look(true, (1, 5), String::new), None);
        assert!(!left.is_running(String::new));
        assert!(left.is_running(|| "sleep (8)".to_owned()));
    }
}
