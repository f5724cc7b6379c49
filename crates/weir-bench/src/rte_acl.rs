//! DPDK's `rte_acl` as a subject, through its C library (feature `rte-acl`).
//!
//! It finds one rule for each packet, not all. Measured look-ups are of packets in network byte
//! order that were made of the keys before.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use thiserror::Error;
use weir_classify::{Classifier, FilterSet, KeySchema, KeyTable, WordTest};

use crate::subject::BenchSubject;

unsafe extern "C" {
    fn weir_acl_start(core: c_uint) -> c_int;
    fn weir_acl_create(name: *const c_char, rule_count: u32) -> *mut c_void;
    fn weir_acl_add(
        context: *mut c_void,
        number: u32,
        priority: i32,
        values: *const [u32; 2],
    ) -> c_int;
    fn weir_acl_build(context: *mut c_void, bytes: *mut usize) -> c_int;
    fn rte_acl_set_ctx_classify(context: *mut c_void, method: c_int) -> c_int;
    fn rte_acl_classify(
        context: *const c_void,
        packets: *const *const u8,
        results: *mut u32,
        count: u32,
        categories: u32,
    ) -> c_int;
    fn rte_acl_free(context: *mut c_void);
}

/// How `rte_acl` walks its tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RteAclMethod {
    /// One packet at a time.
    Scalar,
    /// Packets side by side in 256-bit registers.
    Avx2,
    /// Thirty-two packets in 512-bit registers.
    Avx512,
}

impl RteAclMethod {
    /// All methods.
    pub const ALL: [RteAclMethod; 3] =
        [RteAclMethod::Scalar, RteAclMethod::Avx2, RteAclMethod::Avx512];

    /// The name, as in `--engine`.
    pub fn name(self) -> &'static str {
        match self {
            RteAclMethod::Scalar => "rte_acl-scalar",
            RteAclMethod::Avx2 => "rte_acl-avx2",
            RteAclMethod::Avx512 => "rte_acl-avx512",
        }
    }

    /// The number in `enum rte_acl_classify_alg`.
    fn dpdk_classify_alg(self) -> c_int {
        match self {
            RteAclMethod::Scalar => 1,
            RteAclMethod::Avx2 => 3,
            RteAclMethod::Avx512 => 7,
        }
    }
}

/// Why there is no structure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RteAclError {
    /// The environment of DPDK did not start.
    #[error("start the environment of DPDK: rte_eal_init returned {0}")]
    EalStart(c_int),
    /// A rule is not one of five fields with prefixes, ports and one protocol.
    #[error("rte_acl cannot represent rule {0}")]
    UnsupportedRule(u32),
    /// The library refused.
    #[error("{function} returned {code}")]
    LibraryCall {
        /// Which function.
        function: &'static str,
        /// What it returned.
        code: c_int,
    },
    /// The processor lacks the instructions.
    #[error("this processor or DPDK lacks the instructions of {0}")]
    UnsupportedMethod(&'static str),
}

/// `rte_acl` with its tries.
pub struct RteAclSubject {
    method: RteAclMethod,
    context: *mut c_void,
    memory_bytes: usize,
    build_seconds: Vec<f64>,
    prepared_batches: Vec<RteAclBatch>,
}

/// A packet as the shim describes it to the library; all but the protocol in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RteAclPacket {
    proto: u8,
    padding: [u8; 3],
    addresses_be: [u32; 2],
    ports_be: [u16; 2],
}

/// Packets, as the library is given them: by their addresses.
struct RteAclBatch {
    /// Not read here: what `addresses` points to. Not a `Box`: moving one would invalidate these
    /// pointers under Rust's aliasing model.
    _packets: Vec<RteAclPacket>,
    addresses: Vec<*const u8>,
}

impl RteAclBatch {
    fn new(keys: &KeyTable) -> RteAclBatch {
        assert_eq!(keys.words_per_key(), 5, "keys of five fields");
        let packet = |key: &[u32]| RteAclPacket {
            proto: key[4] as u8,
            padding: [0; 3],
            addresses_be: [key[0].to_be(), key[1].to_be()],
            ports_be: [(key[2] as u16).to_be(), (key[3] as u16).to_be()],
        };
        let packets: Vec<RteAclPacket> = keys.keys().map(packet).collect();
        let addresses = packets.iter().map(|packet| (&raw const *packet).cast()).collect();
        RteAclBatch { _packets: packets, addresses }
    }
}

const PACKETS_PER_CALL: usize = 256;

/// Builds the tries for a filter set of five fields, for one method.
///
/// # Errors
/// DPDK does not start, a rule cannot be represented, or the library refuses.
pub fn build_rte_acl_subject(
    filters: &FilterSet,
    method: RteAclMethod,
) -> Result<RteAclSubject, RteAclError> {
    static EAL_START_RESULT: OnceLock<c_int> = OnceLock::new();
    static CONTEXT_COUNT: AtomicUsize = AtomicUsize::new(0);
    let core = rustix::thread::sched_getcpu();
    // SAFETY: called once, with the number of a core; the library starts no thread for one core.
    let started = *EAL_START_RESULT.get_or_init(|| unsafe { weir_acl_start(core as c_uint) });
    if started < 0 {
        return Err(RteAclError::EalStart(started));
    }
    let number = CONTEXT_COUNT.fetch_add(1, Ordering::Relaxed);
    let name = CString::new(format!("weir{number}")).unwrap_or_default();
    let start = Instant::now();
    // SAFETY: the name is a C string, and copied.
    let context = unsafe { weir_acl_create(name.as_ptr(), filters.filter_count() as u32) };
    let library = |function, code| RteAclError::LibraryCall { function, code };
    if context.is_null() {
        return Err(library("rte_acl_create", 0));
    }
    let mut subject = RteAclSubject {
        method,
        context,
        memory_bytes: 0,
        build_seconds: vec![],
        prepared_batches: vec![],
    };
    let is_five_tuple = *filters.schema() == KeySchema::five_tuple();
    for (index, filter) in filters.filters().enumerate() {
        let values = is_five_tuple.then(|| convert_to_acl_fields(filter.tests)).flatten();
        let values = values.filter(|_| filters.is_deciding(filter.rule));
        let values = values.ok_or(RteAclError::UnsupportedRule(filter.rule))?;
        let priority = (filters.filter_count() - index) as i32;
        // SAFETY: the context is valid, and values has a pair for each of the five fields.
        let code = unsafe { weir_acl_add(context, filter.rule, priority, values.as_ptr()) };
        if code != 0 {
            return Err(library("rte_acl_add_rules", code));
        }
    }
    // SAFETY: the context is valid.
    let code = unsafe { weir_acl_build(context, &raw mut subject.memory_bytes) };
    if code != 0 {
        return Err(library("rte_acl_build", code));
    }
    subject.build_seconds.push(start.elapsed().as_secs_f64());
    // SAFETY: the context is valid; the library checks whether it has the method.
    if unsafe { rte_acl_set_ctx_classify(context, method.dpdk_classify_alg()) } != 0 {
        return Err(RteAclError::UnsupportedMethod(method.name()));
    }
    Ok(subject)
}

/// Protocol, addresses, ports in the order and with the values of the shim.
fn convert_to_acl_fields(tests: &[WordTest]) -> Option<[[u32; 2]; 5]> {
    let interval = |index: usize| match tests[index] {
        WordTest::Within { lo, hi } => Some((lo, hi)),
        WordTest::Masked { .. } => None,
    };
    let prefix = |index| {
        let (lo, hi) = interval(index)?;
        let host_bits = lo ^ hi;
        let is_prefix = host_bits & host_bits.wrapping_add(1) == 0 && lo & host_bits == 0;
        is_prefix.then_some([lo, host_bits.leading_zeros()])
    };
    let ports = |index| interval(index).map(|(lo, hi)| [lo, hi]);
    let proto = match interval(4)? {
        (0, 0xff) => [0, 0],
        (lo, hi) if lo == hi => [lo, 0xff],
        _ => return None,
    };
    Some([proto, prefix(0)?, prefix(1)?, ports(2)?, ports(3)?])
}

impl RteAclSubject {
    fn classify(&self, batch: &RteAclBatch, first: &mut [u32]) {
        let calls = batch.addresses.chunks(PACKETS_PER_CALL);
        for (addresses, first) in calls.zip(first.chunks_mut(PACKETS_PER_CALL)) {
            assert_eq!(addresses.len(), first.len(), "a place for each packet");
            let count = first.len() as u32;
            // SAFETY: there are `count` pointers to packets that live, and as many results; the
            // context is valid and only read.
            let code = unsafe {
                rte_acl_classify(self.context, addresses.as_ptr(), first.as_mut_ptr(), count, 1)
            };
            assert_eq!(code, 0, "rte_acl_classify");
            // Rules are numbered from 1 there; 0, no rule, becomes NO_RULE.
            first.iter_mut().for_each(|rule| *rule = rule.wrapping_sub(1));
        }
    }
}

impl BenchSubject for RteAclSubject {
    fn name(&self) -> &str {
        self.method.name()
    }

    fn find_first_deciding(&self, keys: &KeyTable, first: &mut [u32]) {
        assert_eq!(keys.key_count(), first.len(), "a place for each key");
        self.classify(&RteAclBatch::new(keys), first);
    }

    fn prepare_batches(&mut self, batches: &[KeyTable]) {
        self.prepared_batches = batches.iter().map(RteAclBatch::new).collect();
    }

    fn find_first_deciding_of_batch(&self, batches: &[KeyTable], index: usize, first: &mut [u32]) {
        match self.prepared_batches.get(index) {
            Some(batch) => self.classify(batch, first),
            None => self.find_first_deciding(&batches[index], first),
        }
    }

    fn all_matches_classifier(&self) -> Option<&dyn Classifier> {
        None
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    fn build_seconds(&self) -> &[f64] {
        &self.build_seconds
    }
}

impl Drop for RteAclSubject {
    fn drop(&mut self) {
        // SAFETY: the context is valid and not used after this.
        unsafe { rte_acl_free(self.context) };
    }
}
