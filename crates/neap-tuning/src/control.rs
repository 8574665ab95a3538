//! Looking at a job and steering it while it runs.

use neap_units::{Bytes, Nanos};

crate::group! {
    /// Looking at a job and steering it while it runs.
    control: Control {
        /// Connections that are kept.
        /// More than one person and some monitors need. Chosen.
        connections: usize = 16;
        /// Those of them that follow the events.
        /// The others are for requests. Chosen.
        streams: usize = 8;
        /// Connections of one process.
        /// One that floods leaves room for others. Chosen.
        connections_of_one: usize = 8;
        /// Jobs that may join a service.
        /// Each costs a connection. Chosen.
        members: usize = 1024;
        /// Longest that a service which is to end waits for its jobs.
        /// As docker waits. Chosen.
        stop: Nanos = Nanos::secs(10);
        /// One that has been silent for so long gives its place to another.
        /// Who asks does so at once. Chosen.
        patient: Nanos = Nanos::secs(1);
        /// One that has been silent for so long, or reads nothing, is closed.
        /// Chosen.
        silent: Nanos = Nanos::secs(10);
        /// Bytes of answers that wait to be read by one; one that lets more wait is closed.
        /// The figures of a service with as many jobs and processes as may be, and commands as long as may be, are below it.
        /// Chosen.
        unread: Bytes = Bytes::mib(8);
        /// Processes that an answer names.
        /// They bound its size. Chosen.
        processes: usize = 1024;
        /// Events that are kept for who comes later.
        /// Chosen.
        events: usize = 256;
        /// Least time between two events of one kind that may come at every look.
        /// Chosen.
        event: Nanos = Nanos::secs(1);
        /// Share of the last 10 s in which threads wait that is an event, in percent, until another is set.
        /// A job that waits for a tenth of its time is felt to be slow; systemd-oomd kills at 60 %. Chosen.
        pressure: u8 = 10;
        /// Time between two looks whether a process lives that had a service started and has not joined yet.
        /// Chosen.
        starter: Nanos = Nanos::secs(1);
        /// Pause of the thread after it has done something.
        /// Chosen.
        pause: Nanos = Nanos::millis(1);
        /// The same in times what that took.
        /// Whoever floods takes a fifth of a cpu at most. Chosen.
        pause_times: u64 = 4;
        /// Time between two looks at what is being reclaimed on request.
        /// Chosen.
        look: Nanos = Nanos::millis(10);
        /// Time without progress after which such a request is given up.
        /// A slow disk writes a batch meanwhile. Chosen.
        vain: Nanos = Nanos::secs(2);
        /// Longest that such a request takes.
        /// Chosen.
        longest: Nanos = Nanos::secs(60);
        /// What counts as progress of it.
        /// Chosen.
        progress: Bytes = Bytes::kib(256);
        /// Longest wait for memory to be registered before it.
        /// Chosen.
        register: Nanos = Nanos::secs(2);
        /// Time between two looks at a limit that is somebody else's.
        /// Chosen.
        follow: Nanos = Nanos::secs(1);
        /// Least descriptors that neap may have for its socket to be made.
        /// With fewer they are for the processes of the job. Chosen.
        descriptors: u64 = 256;
        /// Room in the pool's addresses for a larger limit, in times the first.
        /// Addresses cost nothing. Chosen.
        growth: u64 = 4;
        /// Tries to have the folder of sockets for oneself.
        /// Chosen.
        turns: u32 = 50;
        /// Pause between two of them.
        /// Chosen.
        turn: Nanos = Nanos::millis(1);
        /// Longest wait for an answer.
        /// Chosen.
        answer: Nanos = Nanos::secs(5);
        /// The same where all jobs are asked side by side.
        /// Nobody waits longer for a list of jobs, however many are stopped. Chosen.
        glance: Nanos = Nanos::secs(2);
        /// Most bytes of one.
        /// Chosen.
        answer_most: Bytes = Bytes::mib(16);
    }
}
