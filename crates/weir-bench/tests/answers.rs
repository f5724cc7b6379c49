//! A subject that answers wrongly is found, and only that one.

use weir_bench::{
    BenchSubject, EngineSubject, TraceOptions, TracePattern, build_engine_subject,
    find_wrong_answers, generate_trace,
};
use weir_classify::classbench::parse_filter_set;
use weir_classify::{
    BuildLimits, Classifier, Engine, FilterSet, KeyTable, NO_RULE, RuleListsByKey,
};

fn filters() -> FilterSet {
    let text: String = (0..200)
        .map(|n| format!("@10.{n}.0.0/16 0.0.0.0/0 0 : 65535 {n} : 300 0x06/0xFF\n"))
        .chain(["@10.0.0.0/8 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00\n".to_owned()])
        .collect();
    parse_filter_set(&text, true).expect("filters of the format")
}

fn trace(filters: &FilterSet) -> KeyTable {
    let options = TraceOptions { pattern: TracePattern::Uniform, packet_count: 3000, seed: 1 };
    generate_trace(filters, &options)
}

fn build(engine: Engine, filters: &FilterSet) -> EngineSubject {
    build_engine_subject(engine, filters, &BuildLimits::default()).expect("engine can be built")
}

/// What a wrong classifier does to the answers for a packet in the middle of the trace.
#[derive(Clone, Copy)]
enum Fault {
    FirstMatch,
    AllMatches,
    Counters,
}

struct FaultySubject {
    right: EngineSubject,
    fault: Fault,
}

impl BenchSubject for FaultySubject {
    fn name(&self) -> &str {
        "faulty"
    }

    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        BenchSubject::find_first_deciding(&self.right, keys, first);
        if let (Fault::FirstMatch, Some(answer)) = (self.fault, first.get_mut(1234)) {
            *answer = NO_RULE;
        }
    }

    fn all_matches_classifier(&self) -> Option<&dyn Classifier> {
        Some(self)
    }

    fn memory_bytes(&self) -> usize {
        BenchSubject::memory_bytes(&self.right)
    }

    fn build_seconds(&self) -> &[f64] {
        self.right.build_seconds()
    }
}

impl Classifier for FaultySubject {
    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        BenchSubject::find_first_deciding(self, keys, first);
    }

    fn collect_matching(&self, keys: &KeyTable, lists: &mut RuleListsByKey) {
        let mut right = RuleListsByKey::default();
        self.right.all_matches_classifier().expect("an engine").collect_matching(keys, &mut right);
        for row in 0..right.row_count() {
            if !(matches!(self.fault, Fault::AllMatches) && row == 1234) {
                right.row(row).iter().for_each(|rule| lists.push(*rule));
            }
            lists.sort_dedup_and_finish_list_of_key();
        }
    }

    fn increment_counters_of_all_matching_rules(&self, keys: &KeyTable, counters: &mut [u64]) {
        self.right
            .all_matches_classifier()
            .expect("an engine")
            .increment_counters_of_all_matching_rules(keys, counters);
        if let Fault::Counters = self.fault {
            counters[7] += 1;
        }
        if let Fault::AllMatches = self.fault {
            let mut lists = RuleListsByKey::default();
            self.right
                .all_matches_classifier()
                .expect("an engine")
                .collect_matching(keys, &mut lists);
            lists.row(1234).iter().for_each(|rule| counters[*rule as usize] -= 1);
        }
    }

    fn is_deciding(&self, _rule: u32) -> bool {
        true
    }

    fn memory_bytes(&self) -> usize {
        BenchSubject::memory_bytes(self)
    }
}

#[test]
fn correct_engines_agree() {
    let filters = filters();
    let keys = trace(&filters);
    let engines = [Engine::Linear, Engine::IntervalDag, Engine::Tuple].map(|e| build(e, &filters));
    let check =
        find_wrong_answers(&engines.each_ref().map(|e| e as &dyn BenchSubject), &filters, &keys)
            .expect("linear can be built");
    assert_eq!(check.first_wrong_of_each_subject, []);
    assert_eq!(check.linear_packet_count, 3000, "few rules: linear answers all packets");
    assert!(check.matches_per_packet.is_some_and(|matches| matches > 1.0));
}

#[test]
fn a_wrong_subject_is_found_at_any_position() {
    let filters = filters();
    let keys = trace(&filters);
    for (fault, question) in [
        (Fault::FirstMatch, "the first deciding rule"),
        (Fault::AllMatches, "all matching rules"),
        (Fault::Counters, "counters of all matching rules"),
    ] {
        let faulty = FaultySubject { right: build(Engine::Tuple, &filters), fault };
        let right = build(Engine::IntervalDag, &filters);
        for (subjects, wrong_index) in
            [([&faulty as &dyn BenchSubject, &right], 0), ([&right, &faulty], 1)]
        {
            let check = find_wrong_answers(&subjects, &filters, &keys).expect("linear");
            let found: Vec<_> = check
                .first_wrong_of_each_subject
                .iter()
                .map(|w| (w.subject_index, w.question))
                .collect();
            assert_eq!(found, [(wrong_index, question)]);
            assert!(check.right_subjects_first_match_hash.is_some(), "the other one is right");
        }
    }
}

#[test]
fn outside_the_sample_linear_decides_if_subjects_differ() {
    let filters = filters();
    let keys = trace(&filters);
    let faulty = FaultySubject { right: build(Engine::Tuple, &filters), fault: Fault::FirstMatch };
    let right = build(Engine::IntervalDag, &filters);
    for (subjects, wrong_index) in
        [([&faulty as &dyn BenchSubject, &right], 0), ([&right, &faulty], 1)]
    {
        let check = weir_bench::find_wrong_answers_with_sample(&subjects, &filters, &keys, 10)
            .expect("linear can be built");
        assert_eq!(check.linear_packet_count, 10);
        let found: Vec<_> = check
            .first_wrong_of_each_subject
            .iter()
            .map(|w| (w.subject_index, w.packet_index))
            .collect();
        assert_eq!(found, [(wrong_index, 1234)]);
    }
}
