//! A program that speaks nonsense to the engine harms nobody, least of all the others of its job.

use std::time::Duration;

use neap_tests::{Neap, Need, Run, program, require};

#[test]
fn nonsense_on_the_socket_harms_nobody() {
    let test = "nonsense_on_the_socket_harms_nobody";
    if !require(test, &[Need::Neap, Need::Userfaultfd]) {
        return;
    }
    let (hog, babble) = (program("hog"), program("babble"));
    let plain = Run::new([hog.as_os_str(), "96".as_ref(), "2".as_ref()]).go();
    let script = "\"$1\" 96 2 & \"$2\" 7 300 >&2; babbled=$?; wait $! && exit $babbled";
    let words = ["sh", "-c", script, "sh"].map(AsRef::as_ref);
    let both = [hog.as_os_str(), babble.as_os_str()];
    let run = Run::new(words.into_iter().chain(both)).limit(Duration::from_secs(200));
    let run = Neap::limit("64M").env("NEAP_CHECK", "1").run(&run);
    run.must_have_paged();
    assert_eq!(run.text(), plain.text());
    assert!(run.stderr.contains("babble: ok"), "{}", run.stderr);
}
