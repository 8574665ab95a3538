use std::os::unix::fs::MetadataExt;

use super::*;

/// Every way a request can take: direct or cached, ring or plain.
fn every_way(dir: &Path) -> Vec<SwapFile> {
    let mut files = Vec::new();
    for direct in [true, false] {
        for rings in [true, false] {
            files.push(SwapFile::create_with(dir, direct, rings).expect("swap file"));
        }
    }
    files
}

fn pattern(block: u64) -> Vec<u8> {
    (0..BLOCK as u64)
        .map(|i| (i * 31 + block * 7 + (block >> 3)) as u8)
        .collect()
}

#[test]
fn what_was_written_is_read_back_in_any_batch_and_order() {
    let dir = tempfile::tempdir().expect("dir");
    for file in every_way(dir.path()) {
        let blocks: Vec<u64> = (0..100).map(|i| (i * 37) % 100).collect();
        let bytes: Vec<Vec<u8>> = blocks.iter().map(|&b| pattern(b)).collect();
        let writes: Vec<(u64, &[u8])> = blocks
            .iter()
            .zip(&bytes)
            .map(|(&b, v)| (b * BLOCK as u64, v.as_slice()))
            .collect();
        file.write_many(&writes).expect("write");
        let mut buffers: Vec<Vec<u8>> = (0..50).map(|_| vec![0; 2 * BLOCK]).collect();
        let mut reads: Vec<(u64, &mut [u8])> = buffers
            .iter_mut()
            .enumerate()
            .map(|(i, b)| (i as u64 * 2 * BLOCK as u64, b.as_mut_slice()))
            .collect();
        file.read_many(&mut reads).expect("read");
        for (i, buffer) in buffers.iter().enumerate() {
            assert_eq!(buffer[..BLOCK], pattern(2 * i as u64));
            assert_eq!(buffer[BLOCK..], pattern(2 * i as u64 + 1));
        }
    }
}

#[test]
fn one_request_may_be_longer_than_the_aligned_memory() {
    let dir = tempfile::tempdir().expect("dir");
    for file in every_way(dir.path()) {
        let long: Vec<u8> = (0..700).flat_map(pattern).collect();
        file.write_many(&[(BLOCK as u64, &long), (0, &pattern(9))])
            .expect("write");
        let mut back = vec![0; long.len()];
        file.read_many(&mut [(BLOCK as u64, &mut back)])
            .expect("read");
        assert_eq!(back, long);
    }
}

#[test]
fn a_punched_range_reads_zero_and_takes_no_space() {
    let dir = tempfile::tempdir().expect("dir");
    let file = SwapFile::create(dir.path()).expect("swap file");
    let bytes = vec![7u8; 64 * BLOCK];
    file.write_many(&[(0, &bytes)]).expect("write");
    match file.punch(BLOCK as u64..bytes.len() as u64) {
        Err(e) if e.kind() == io::ErrorKind::Unsupported => return,
        result => result.expect("punch"),
    }
    let mut back = vec![1; 2 * BLOCK];
    file.read_many(&mut [(0, &mut back)]).expect("read");
    assert!(back[..BLOCK].iter().all(|&b| b == 7));
    assert!(back[BLOCK..].iter().all(|&b| b == 0));
    assert!(file.file.metadata().expect("metadata").blocks() * 512 < 8 * BLOCK as u64);
}

#[test]
fn the_file_is_private_and_leaves_no_name() {
    let dir = tempfile::tempdir().expect("dir");
    for file in [open(dir.path(), 0), open_and_unlink(dir.path(), 0)] {
        let file = file.expect("open");
        let metadata = file.metadata().expect("metadata");
        assert_eq!(metadata.mode() & 0o777, 0o600);
        assert_eq!(metadata.nlink(), 0);
        assert_eq!(std::fs::read_dir(dir.path()).expect("dir").count(), 0);
    }
}

#[test]
fn reading_past_the_end_is_an_error_and_so_is_a_broken_block() {
    let dir = tempfile::tempdir().expect("dir");
    for file in every_way(dir.path()) {
        file.set_len(4 * BLOCK as u64).expect("length");
        let mut a = vec![0; BLOCK];
        let mut b = vec![0; BLOCK];
        let end = file.read_many(&mut [(0, &mut a), (4 * BLOCK as u64, &mut b)]);
        assert_eq!(
            end.expect_err("past the end").kind(),
            io::ErrorKind::UnexpectedEof
        );
        let odd = file.read_many(&mut [(100, &mut a)]);
        assert_eq!(
            odd.expect_err("odd offset").kind(),
            io::ErrorKind::InvalidInput
        );
        let short = file.write_many(&[(0, &[0; 512])]);
        assert_eq!(
            short.expect_err("odd length").kind(),
            io::ErrorKind::InvalidInput
        );
    }
}

#[test]
fn a_missing_directory_is_named_in_the_error() {
    let error = SwapFile::create(Path::new("/nowhere/at/all")).expect_err("no such directory");
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}

#[test]
fn threads_read_and_write_at_once() {
    let dir = tempfile::tempdir().expect("dir");
    let file = SwapFile::create(dir.path()).expect("swap file");
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let file = &file;
            scope.spawn(move || {
                for round in 0..20 {
                    let blocks: Vec<u64> = (0..8).map(|i| thread * 8 + i).collect();
                    let bytes: Vec<Vec<u8>> = blocks.iter().map(|&b| pattern(b + round)).collect();
                    let writes: Vec<(u64, &[u8])> = blocks
                        .iter()
                        .zip(&bytes)
                        .map(|(&b, v)| (b * BLOCK as u64, v.as_slice()))
                        .collect();
                    file.write_many(&writes).expect("write");
                    let mut back = vec![0; 8 * BLOCK];
                    file.read_many(&mut [(thread * 8 * BLOCK as u64, &mut back)])
                        .expect("read");
                    assert_eq!(back, bytes.concat());
                }
            });
        }
    });
}

/// Makes `syscall` fail with EPERM in this thread from now on, as container filters do.
fn forbid(syscall: libc::c_long) {
    const EPERM: u32 = libc::EPERM as u32;
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let mut program = [
        // The number of the system call is the first word of the data a filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            jf: 1,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, syscall as u32)
        },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | EPERM),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: both calls affect this thread alone; the filter outlives the call that copies it.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) != 0
    };
    assert!(!refused, "{}", io::Error::last_os_error());
}

#[test]
fn a_filter_that_forbids_rings_costs_nothing_but_the_rings() {
    for syscall in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter] {
        let worker = std::thread::spawn(move || {
            forbid(syscall);
            let dir = tempfile::tempdir().expect("dir");
            let file = SwapFile::create(dir.path()).expect("swap file");
            let bytes: Vec<Vec<u8>> = (0..40).map(pattern).collect();
            let writes: Vec<(u64, &[u8])> = (0u64..)
                .zip(&bytes)
                .map(|(b, v)| (b * 2 * BLOCK as u64, v.as_slice()))
                .collect();
            file.write_many(&writes).expect("write");
            assert!(!file.rings.load(Ordering::Relaxed));
            let mut back = vec![vec![0; BLOCK]; 40];
            let mut reads: Vec<(u64, &mut [u8])> = (0u64..)
                .zip(&mut back)
                .map(|(b, v)| (b * 2 * BLOCK as u64, v.as_mut_slice()))
                .collect();
            file.read_many(&mut reads).expect("read");
            assert_eq!(back, bytes);
        });
        worker.join().expect("no panic");
    }
}
