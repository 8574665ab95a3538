//! How often neap looks at the job, its mappings, and what its processes share.

use neap_units::{Bytes, Nanos, Pages};

use crate::Share;

crate::group! {
    /// How often neap looks at the job, its mappings, and what its processes share.
    looks: Looks {
        /// Growth that neap's own fills do not explain, after which mappings are looked for.
        /// Chosen.
        unexplained: Bytes = Bytes::mib(1);
        /// The same near the limit.
        /// The faults of a new mapping wait for nothing until it is found. Chosen.
        unexplained_near: Bytes = Bytes::kib(128);
        /// Mappings are looked for this often once memory is registered.
        /// Chosen.
        mappings: Nanos = Nanos::millis(50);
        /// Mappings are not looked for again before so many times the time that the last look took.
        /// A look takes this thread's cpu from everybody else. Chosen.
        mappings_rest: u64 = 16;
        /// The same where the job has grown.
        /// Chosen.
        mappings_rest_growing: u64 = 1;
        /// A space whose size and memory are as they were is passed over so many times in a row.
        /// The kernel tells when a registered mapping goes. Of the others one may have taken the place of another that was as large.
        /// Chosen.
        still: u32 = 256;
        /// Share for which time counts that a look waits for others.
        /// It takes no cpu then, but it may keep faults of the process waiting. Chosen.
        waiting: Share = Share::one_in(4);
        /// Sleep while a job that is at its limit maps more and more.
        /// Chosen.
        soonest: Nanos = Nanos::micros(100);
        /// Rest from looks at what processes share, and at who they are, in times that the last one took.
        /// A look at what they share walks every page. Chosen.
        rest: u64 = 10;
        /// The same where the processes may have copied much of what they share.
        /// Chosen.
        rest_in_doubt: u64 = 4;
        /// A child that is heard of within this time after its parent was measured may have shared with it then.
        /// The parent waits until its fork is heard of. Chosen.
        birth: Nanos = Nanos::millis(10);
        /// The same of a parent that was forking, or changed mappings, when it was measured.
        /// Its thread may wait that long for a cpu. Chosen.
        fork: Nanos = Nanos::millis(50);
        /// Share of the limit that is much for this.
        /// Chosen.
        doubt: Share = Share::one_in(64);
        /// Time between looks at what the agents have taken of a cpu.
        /// Nothing but the report waits for it. Chosen.
        agents: Nanos = Nanos::millis(10);
        /// They rest for so many times what the last one took.
        /// A quarter of a hundredth of a cpu. Chosen.
        agents_rest: u64 = 400;
        /// Time between looks at whose memory is not its process's any more.
        /// Chosen.
        execs: Nanos = Nanos::millis(5);
        /// They rest for so many times the cpu time that the last one took.
        /// A program that becomes another tells of it itself; this finds those that do not. Chosen.
        execs_rest: u64 = 100;
        /// A look that is so late is made by the second sampler.
        /// Chosen.
        late: Nanos = Nanos::micros(500);
        /// Longest sleep of the second sampler where it is not needed.
        /// It is called when it is. Chosen.
        deputy_sleep: Nanos = Nanos::secs(1);
        /// A mapping that the kernel would not register is tried again after this.
        /// Chosen.
        register_again: Nanos = Nanos::secs(1);
        /// Mappings that are taken over under one hold of the gate.
        /// Chosen.
        mappings_at_once: usize = 256;
        /// Mappings that are counted at a time.
        /// Some 0.3 ms. Chosen.
        mappings_counted: usize = 512;
        /// None are counted before so many times the time that the last part took.
        /// New ones count when they are found, so that only those that went or split are late. Chosen.
        mappings_counted_rest: u64 = 100;
        /// Present pages that are noted under one hold of the core.
        /// Chosen.
        notes_at_once: Pages = Pages(512);
        /// Places where new mappings came that are kept, of each kind.
        /// Chosen.
        places: usize = 64;
        /// How often mappings are tried to be taken over.
        /// The next look finds what is left. Chosen.
        tries: u32 = 4;
        /// The same for what a forked child has from its parent.
        /// Nobody looks for that again. Chosen.
        tries_of_child: u32 = 40;
        /// Pause between two such tries.
        /// Chosen.
        between_tries: Nanos = Nanos::micros(50);
        /// Time after which a child that has told nothing of itself never will.
        /// It was made by a raw clone. Chosen.
        childhood: Nanos = Nanos::secs(1);
        /// A forked child whose faults may have brought less than this has hardly anything of its own.
        /// Chosen.
        idle_child: Bytes = Bytes::kib(512);
        /// Pages of threads that are remembered beyond one for each thread.
        /// Stacks are used again. Chosen.
        thread_pages: usize = 4096;
        /// A thread that is known is asked again at one look of so many.
        /// Another may have its number by now. Chosen.
        thread_turns: i32 = 16;
        /// Runs of pages that are nearer to each other than this are one.
        /// There may be tens of thousands. Chosen.
        near: Bytes = Bytes::mib(1);
        /// Shortest time between two looks for processes without neap's library.
        /// Chosen.
        strays: Nanos = Nanos::secs(1);
        /// They are not looked for again before so many times the cpu time that the last look took.
        /// It reads what all processes of the machine say of themselves. By the clock a busy machine would put it off for long.
        strays_rest: u64 = 200;
        /// Shortest time between two looks for children that nobody announced, the second of which ends them.
        /// One that executes a program at once is left alone. Chosen.
        copies: Nanos = Nanos::millis(150);
        /// Processes that have ended last, whose children are looked for.
        /// Chosen.
        departed: usize = 64;
        /// They are not looked for again before so many times the cpu time that the last look took.
        /// A hundredth of a cpu, where others begin threads all the time. Chosen.
        copies_rest: u64 = 100;
        /// Share of the limit above which such a process is named.
        /// Chosen.
        stray_share: Share = Share::one_in(16);
        /// Such processes that are named at most.
        /// Chosen.
        strays_named: usize = 16;
    }
}
