//! Records of every kind of decider, as they were asked and spoilt.

use std::collections::BTreeSet;

use neap_policy::{
    FreshRuns, Outlook, Pacer, PoolGate, PoolWorker, Stride, WalkReadahead, WritePressure,
};
use neap_units::{PageNr, Pages};
use proptest::prelude::*;

use super::shrinker::ShrinkerAgain;
use super::{ALL, Decider, Noted, Numbers, Who};
use crate::tests::{Memory, file, read};
use crate::{Answer, Call, End, Recorder, Replay};

/// Makes a decider of the first of these numbers that make one, and asks it what the others make.
fn drive<D: Decider>(recorder: &Recorder, words: &[u64]) {
    let takes = |at: usize| words[at..].iter().copied();
    let made = (0..words.len()).find_map(|at| D::Made::take(&mut takes(at)));
    let mut decider = Noted::<D>::new(recorder, made.expect("some number does"));
    for at in 0..words.len() {
        if let Some(ask) = D::Ask::take(&mut takes(at))
            && decider.may_ask(&ask)
        {
            decider.decide(ask);
        }
    }
}

/// A kind of decider to be driven.
struct Driven {
    drive: fn(&Recorder, &[u64]),
    place: u8,
    name: &'static str,
}

const fn driven<D: Decider>() -> Driven {
    Driven {
        drive: drive::<D>,
        place: D::PLACE,
        name: D::NAME,
    }
}

/// In the order of [`ALL`].
const DRIVEN: &[Driven] = &[
    driven::<WalkReadahead>(),
    driven::<Stride>(),
    driven::<FreshRuns>(),
    driven::<PoolGate>(),
    driven::<Pacer>(),
    driven::<Outlook>(),
    driven::<WritePressure>(),
    driven::<PoolWorker>(),
    driven::<ShrinkerAgain>(),
];

/// The record of what `work` does.
fn recorded(work: impl FnOnce(&Recorder)) -> Vec<Vec<u8>> {
    let (memory, recorder) = (Memory::default(), Recorder::default());
    recorder.start(Box::new(memory.clone()));
    work(&recorder);
    assert!(recorder.finish());
    let blocks = memory.blocks.lock().unwrap();
    blocks.clone()
}

/// Calls that a replay answers otherwise than the record.
fn different(calls: &[(Call, Answer)]) -> Vec<String> {
    let mut replay = Replay::new();
    let different = calls.iter().filter_map(|(call, answer)| {
        let now = replay.step(call).answer;
        (now.as_ref() != Some(answer)).then(|| format!("{call}: {answer}"))
    });
    different.collect()
}

fn words() -> impl Strategy<Value = Vec<u64>> {
    let word = prop_oneof![6 => 0u64..4, 4 => 0u64..200, 2 => 0u64..1 << 30, 1 => any::<u64>()];
    prop::collection::vec(word, 20..150)
}

proptest! {
    #[test]
    fn every_kind_of_decider_is_replayed_with_the_same_answers(words in words()) {
        let mut words = words;
        words.extend([1; 20]);
        let blocks = recorded(|recorder| {
            DRIVEN.iter().for_each(|driven| (driven.drive)(recorder, &words));
        });
        let (calls, end) = read(&file(&blocks, true));
        prop_assert_eq!(end, End::Whole);
        prop_assert_eq!(different(&calls), [""; 0]);
        let kinds: BTreeSet<_> = calls.iter().filter_map(|(call, _)| call.decider()).collect();
        let kinds: Vec<_> = kinds.iter().map(|who| who.name()).collect();
        let all: Vec<_> = ALL.iter().map(|kind| kind.name).collect();
        prop_assert_eq!(kinds, all);
    }

    #[test]
    fn any_numbers_are_asked_without_a_panic(
        kind in 0..ALL.len() as u8 + 1,
        made in prop::collection::vec(any::<u64>(), 0..3),
        asks in prop::collection::vec(words(), 1..20),
    ) {
        let who = Who { kind, number: 1 };
        let mut replay = Replay::new();
        replay.step(&Call::Make(who, made));
        for words in asks {
            let call = (1..words.len()).map(|end| Call::Decide(who, words[..end].to_vec()));
            for call in call.take(9) {
                let answer = replay.step(&call).answer;
                let _ = format!("{call}: {answer:?}");
            }
        }
    }

    #[test]
    fn a_walk_over_pages_that_are_there_in_part_is_replayed(
        faults in prop::collection::vec((0u64..3000, 0u64..8, 0u64..40), 1..80),
    ) {
        let blocks = recorded(|recorder| {
            let mut ahead = Noted::<WalkReadahead>::new(recorder, ());
            let mut plain = WalkReadahead::default();
            for (page, every, end) in faults {
                let there = |range: std::ops::Range<PageNr>| range.start.0.is_multiple_of(every + 1);
                let around = Pages(1 << (every % 3));
                let window = ahead.fault(PageNr(page), around, there);
                assert_eq!(window, plain.fault(PageNr(page), around, there));
                ahead.ends_at(PageNr(page + 1 + end));
                plain.ends_at(PageNr(page + 1 + end));
            }
        });
        let (calls, _) = read(&file(&blocks, true));
        prop_assert_eq!(different(&calls), [""; 0]);
    }
}

#[test]
fn a_walk_at_equal_distances_is_replayed() {
    let blocks = recorded(|recorder| {
        let (mut noted, mut plain) = (Noted::<Stride>::new(recorder, ()), Stride::default());
        for page in (0..10).map(|step| PageNr(1000 + step * 16)) {
            assert!(noted.fault(page, 8).eq(plain.fault(page, 8)));
        }
    });
    let (calls, _) = read(&file(&blocks, true));
    assert_eq!(different(&calls), [""; 0]);
    let text: Vec<_> = calls
        .iter()
        .filter(|(call, _)| !matches!(call, Call::Time(_)))
        .map(|(call, answer)| format!("{call}: {answer}"))
        .collect();
    assert_eq!(text[0], "make stride 1 of []: done");
    assert_eq!(
        text[1],
        "stride 1, AskStride { page: PageNr(1000), most: 8 }: []"
    );
    assert!(text[4].ends_with(": [PageNr(1064)]"), "{}", text[4]);
}

#[test]
fn each_kind_is_at_its_place() {
    let driven = DRIVEN.iter().map(|driven| (driven.place, driven.name));
    let all = (0..).zip(ALL.iter().map(|kind| kind.name));
    assert!(driven.eq(all));
}

#[test]
fn a_changed_answer_of_any_kind_is_the_only_difference() {
    let words: Vec<u64> = (0..200).map(|at| at * 7 % 5).collect();
    for driven in DRIVEN {
        let blocks = recorded(|recorder| (driven.drive)(recorder, &words));
        let (mut calls, _) = read(&file(&blocks, true));
        let answered = calls.iter_mut().find_map(|(_, answer)| match answer {
            Answer::Decided(who, numbers) => Some((*who, numbers)),
            _ => None,
        });
        let (who, numbers) = answered.expect("an answer");
        numbers.push(1);
        let different = different(&calls);
        assert_eq!(different.len(), 1);
        assert!(
            different[0].starts_with(&format!("{who}, ")),
            "{different:?}"
        );
    }
}

#[test]
fn nothing_is_noted_without_a_record_and_a_decider_that_is_gone_is_forgotten() {
    let recorder = Recorder::default();
    drive::<Stride>(&recorder, &[1; 20]);
    assert!(!recorder.is_on() && !recorder.finish());
    let blocks = recorded(|recorder| drive::<Stride>(recorder, &[1; 20]));
    let (calls, _) = read(&file(&blocks, true));
    let who = calls.iter().find_map(|(call, _)| call.decider()).unwrap();
    assert_eq!(calls.last().map(|(call, _)| call), Some(&Call::Unmake(who)));
    let mut replay = Replay::new();
    calls.iter().for_each(|(call, _)| drop(replay.step(call)));
    let again = Call::Decide(who, vec![1, 1]);
    assert_eq!(replay.step(&again).answer, None);
}
