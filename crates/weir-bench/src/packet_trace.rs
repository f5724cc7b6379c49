//! Packets for a filter set: each is in a filter of a rule, and how rules repeat is chosen; or all
//! are random.

use weir_classify::{FilterSet, KeyTable, KeyWordTestMethod, WordTest};
use weir_random::Rng;

/// How often which rule has a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TracePattern {
    /// Every filter equally often, with a new packet each time.
    Uniform,
    /// The n-th filter of a random order in proportion to 1/n.
    Zipf,
    /// Every word with any of its values equally often: most packets are in no filter of hosts.
    Random,
    /// Flows that repeat: fifteen of sixteen packets are of one of the last 256 flows, recent ones
    /// more often; a new flow is of a filter as in `Zipf`.
    Local,
}

/// What [`generate_trace()`] generates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// How rules repeat.
    pub pattern: TracePattern,
    /// Number of packets.
    pub packet_count: usize,
    /// Seed of all random choices.
    pub seed: u64,
}

const LIVE_FLOWS_MAX: usize = 256;
const PACKETS_PER_NEW_FLOW: usize = 16;

/// The keys of packets that are each drawn from the inside of one filter, except for
/// [`TracePattern::Random`]. An earlier rule may match them as well.
///
/// ```
/// use weir_bench::{TraceOptions, TracePattern, generate_trace};
/// use weir_classify::classbench::parse_filter_set;
/// let filters = parse_filter_set("@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF\n", true).unwrap();
/// let options = TraceOptions { pattern: TracePattern::Uniform, packet_count: 9, seed: 1 };
/// let keys = generate_trace(&filters, &options);
/// assert!(keys.keys().all(|key| filters.filter(0).matches(key)));
/// ```
///
/// # Panics
/// If there is no filter.
pub fn generate_trace(filters: &FilterSet, options: &TraceOptions) -> KeyTable {
    assert!(filters.filter_count() > 0, "packets are drawn from filters");
    let mut random = Rng::for_purpose(options.seed, "trace");
    let picker = match options.pattern {
        TracePattern::Uniform | TracePattern::Random => None,
        TracePattern::Zipf | TracePattern::Local => {
            Some(ZipfFilterPicker::new(filters.filter_count(), &mut random))
        }
    };
    let draw_key = |random: &mut Rng| {
        if options.pattern == TracePattern::Random {
            let words = filters.schema().words().iter();
            return words.map(|word| random.between(0, word.max_value().into()) as u32).collect();
        }
        let filter = match &picker {
            Some(picker) => picker.pick_filter(random),
            None => random.below(filters.filter_count()),
        };
        draw_key_in_filter(filters, filter, random)
    };
    let mut keys = KeyTable::new(filters.schema());
    let mut flows: Vec<Vec<u32>> = Vec::new();
    for _ in 0..options.packet_count {
        if options.pattern != TracePattern::Local {
            keys.push(&draw_key(&mut random));
            continue;
        }
        if flows.is_empty() || random.one_in(PACKETS_PER_NEW_FLOW) {
            flows.insert(0, draw_key(&mut random));
            flows.truncate(LIVE_FLOWS_MAX);
            keys.push(&flows[0]);
        } else {
            let recent = random.below(flows.len()).min(random.below(flows.len()));
            keys.push(&flows[recent]);
        }
    }
    keys
}

fn draw_key_in_filter(filters: &FilterSet, filter: usize, random: &mut Rng) -> Vec<u32> {
    let tests = filters.filter(filter).tests;
    let words = filters.schema().words().iter().zip(tests);
    words
        .map(|(word, test)| match (*test, word.kind) {
            (WordTest::Within { lo, hi }, KeyWordTestMethod::Interval { .. }) => {
                random.between(lo.into(), hi.into()) as u32
            }
            (WordTest::Masked { value, mask }, _) => value | random.next_u64() as u32 & !mask,
            (WordTest::Within { .. }, KeyWordTestMethod::Bits) => {
                unreachable!("a filter set has masked tests of words of bits")
            }
        })
        .collect()
}

/// Picks the filter of rank n, from 1, with a weight of 1/n.
struct ZipfFilterPicker {
    filter_of_rank: Vec<usize>,
    /// Sums of weights up to each rank, in units of 2^-32: whole numbers, equal on every machine.
    cumulative_weights: Vec<u64>,
}

impl ZipfFilterPicker {
    fn new(filter_count: usize, random: &mut Rng) -> ZipfFilterPicker {
        let mut filter_of_rank: Vec<usize> = (0..filter_count).collect();
        random.shuffle(&mut filter_of_rank);
        let weights = (1..=filter_count as u64).map(|rank| (1 << 32) / rank);
        let cumulative_weights = weights
            .scan(0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        ZipfFilterPicker { filter_of_rank, cumulative_weights }
    }

    fn pick_filter(&self, random: &mut Rng) -> usize {
        let total = self.cumulative_weights.last().copied().unwrap_or(1);
        let drawn = random.next_u64() % total;
        self.filter_of_rank[self.cumulative_weights.partition_point(|sum| *sum <= drawn)]
    }
}
