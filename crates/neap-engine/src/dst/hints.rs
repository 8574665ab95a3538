//! Programs say how they use their memory, and the engine does what they ask for.

use neap_imagined::{Chance, PAGE};
use neap_wire::Note;
use neap_wire::notes::advice;

use super::program::{BASE, PAGES};
use super::scene::Scene;
use crate::load::do_errands;
use crate::reclaim::Part;

const ALL: [u32; 6] = [
    advice::NORMAL,
    advice::SEQUENTIAL,
    advice::RANDOM,
    advice::WILLNEED,
    advice::COLD,
    advice::PAGEOUT,
];

impl Scene {
    /// A program says something, or what was said is done.
    pub(super) fn hint(&self, chance: &mut Chance) {
        let Some(space) = self.some_space(chance).filter(|space| space.is_managed()) else {
            return;
        };
        let job = self.job.clone();
        if chance.happens(400) {
            self.note(|| "what takes long is done of what programs said".into());
            self.has_done(move || do_errands(&job));
            return;
        }
        if chance.happens(500) {
            let pages = 1 + chance.below(32);
            let start = BASE + chance.below(PAGES - pages) * PAGE;
            let range = start..start + pages * PAGE;
            let advice = ALL[chance.below(ALL.len() as u64) as usize];
            self.note(|| format!("space {:?} says {advice} of {range:x?}", space.id));
            space.take_note_of(&job, &Note { range, advice });
        }
        let slot = self.reclaimer.share();
        if let Some(mut reclaimer) = slot.take() {
            self.note(|| "reclaim does what programs said".into());
            self.has_done(move || {
                reclaimer.part_of_pass(Part::Hints, &space);
                slot.put(reclaimer);
            });
        }
    }
}

mod told {
    use neap_imagined::{Act, Outcome, Prot};
    use neap_policy::State;

    use super::super::found::{Story, place};
    use super::*;

    fn says(story: &Story, advice: u32, pages: std::ops::Range<u64>) {
        let job = &story.scene.job;
        let space = story.program(0).space.borrow().clone().expect("a space");
        let range = place(pages.start, pages.end - pages.start);
        space.take_note_of(job, &Note { range, advice });
        story.part(0, Part::Hints);
        do_errands(job);
    }

    fn resident(story: &Story) -> Vec<bool> {
        let space = story.program(0).space.borrow().clone().expect("a space");
        let core = story.scene.job.core();
        let first = BASE / PAGE;
        let state = |page| core.state_at(space.id, neap_units::PageNr(first + page));
        (0..12)
            .map(|page| matches!(state(page), State::Resident { .. }))
            .collect()
    }

    #[test]
    fn what_a_program_has_taken_out_comes_back_when_it_says_so() {
        let story = Story::new();
        story.does(0, Act::Map(place(0, 12), Prot::RW));
        (0..12).for_each(|page| _ = story.does(0, Act::Write(BASE + page * PAGE, 1, 7 + page)));
        story.look(0);
        says(&story, advice::PAGEOUT, 2..10);
        let out = |page| (2..10).contains(&page);
        let want: Vec<bool> = (0..12).map(|page| !out(page)).collect();
        assert_eq!(resident(&story), want);
        says(&story, advice::WILLNEED, 4..12);
        let back = resident(&story);
        assert!(back[4..].iter().all(|&there| there), "{back:?}");
        let read = story.does(0, Act::Read(BASE + 2 * PAGE));
        assert!(matches!(read, Outcome::Read(_)));
        story.ends_well();
    }

    #[test]
    fn what_a_child_has_too_stays() {
        let story = Story::new();
        story.does(0, Act::Map(place(0, 12), Prot::RW));
        (0..12).for_each(|page| _ = story.does(0, Act::Write(BASE + page * PAGE, 1, 7 + page)));
        story.look(0);
        story.does(0, Act::Fork);
        story.scene.take_born();
        says(&story, advice::PAGEOUT, 0..12);
        assert_eq!(resident(&story), [true; 12]);
        story.ends_well();
    }
}
