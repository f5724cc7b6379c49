//! The generator: the kernel itself sends frames into a veth device.
//!
//! `BPF_PROG_TEST_RUN` with live frames sends several million packets per second from one core. One
//! call lasts for the whole trial; the program paces itself and stops sending when its time is
//! over, and a signal then ends the call. Short calls in a loop would spend their time creating and
//! destroying page pools.
//!
//! On one core everything shares the processor: after sending a batch of 64 frames, the kernel
//! takes them through the firewall to the sink before the next batch is sent. Without a rate limit,
//! the duration of a trial divided by the delivered packets is therefore the cost of one packet on
//! its whole path.

use std::mem::offset_of;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use weir_bpf::test_run::{
    MAX_CATCH_UP_BURST_FRAMES, count_pages_for_trial, run_live_frames_until_silent,
};
use weir_bpf::{StoppedTestRunInterrupter, object_storage_and_attach};
use weir_kernel::Namespace;
use weir_packet::Mac;

use crate::LabError;
use crate::frames::{
    self, Frame, LARGE_FRAME_TABLE_SLOT_BYTES, SMALL_FRAME_TABLE_SLOT_BYTES, build_tagged_frame,
};
use crate::observe::core_pinning::raise_priority_above_generator;

#[allow(missing_docs, clippy::all, clippy::too_many_lines)]
mod bpf_skeleton {
    include!(concat!(env!("OUT_DIR"), "/generator.skel.rs"));
}
use bpf_skeleton::{GeneratorSkel, GeneratorSkelBuilder};

/// How frames are sent.
#[derive(Clone, Debug, PartialEq)]
pub struct SendPlan {
    /// How long.
    pub duration: Duration,
    /// Packets a second; 0: as fast as the firewall can follow.
    pub rate_pps: u64,
    /// Stop after this many packets; 0: after the duration only.
    pub packets_max: u64,
    /// Frames in random order rather than in sequence.
    pub shuffled: bool,
    /// Seed of that order.
    pub seed: u32,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SendResult {
    /// Packets handed to the device.
    pub offered: u64,
    /// Packets of these that the ruleset has to drop.
    pub to_drop: u64,
    /// Packets of the rate that could not be sent in time.
    pub skipped_behind_schedule: u64,
    /// It finished; otherwise it was delayed so long that its duration is not known.
    pub finished: bool,
    /// From the first packet until the kernel was done with the last batch, seconds.
    pub seconds: f64,
}

/// The generator, with its table of frames in the kernel.
pub struct FrameGenerator {
    bpf_skeleton: GeneratorSkel<'static>,
    table: FrameTableSize,
    frames: u32,
    test_run_interrupter: StoppedTestRunInterrupter,
}

/// The table that frames are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameTableSize {
    is_large: bool,
    slots: u32,
}

impl FrameTableSize {
    /// Slots of the one that every generator begins with.
    const INITIAL_SLOTS: u32 = 65_536;

    /// One that holds these frames.
    fn sized_for(frames: &[Frame]) -> FrameTableSize {
        let count = frames.len() as u32;
        if frames::needs_large_frame_table(frames) {
            return FrameTableSize { is_large: true, slots: count };
        }
        FrameTableSize { is_large: false, slots: count.max(FrameTableSize::INITIAL_SLOTS) }
    }

    /// Whether it can take the frames of another one.
    fn can_hold_table_of_size(self, other: FrameTableSize) -> bool {
        self.is_large == other.is_large && self.slots >= other.slots
    }

    fn slot_bytes(self) -> usize {
        if self.is_large { LARGE_FRAME_TABLE_SLOT_BYTES } else { SMALL_FRAME_TABLE_SLOT_BYTES }
    }
}

impl FrameGenerator {
    /// Loads the program.
    ///
    /// # Errors
    /// If the kernel refuses it (not root; no XDP).
    pub fn new() -> Result<FrameGenerator, LabError> {
        FrameGenerator::with_table_size(FrameTableSize {
            is_large: false,
            slots: FrameTableSize::INITIAL_SLOTS,
        })
    }

    fn with_table_size(table: FrameTableSize) -> Result<FrameGenerator, LabError> {
        let mut open = GeneratorSkelBuilder::default()
            .open(object_storage_and_attach::leak_object_storage())
            .map_err(LabError::bpf_error("open the generator's BPF program"))?;
        let rodata = open.maps.rodata_data.as_deref_mut().expect("the program has constants");
        rodata.is_large = table.is_large.into();
        let (small, large) = if table.is_large { (1, table.slots) } else { (table.slots, 1) };
        let failed = || LabError::bpf_error("size the table of frames");
        open.maps.frames.set_max_entries(small).map_err(failed())?;
        open.maps.large_frames.set_max_entries(large).map_err(failed())?;
        let skeleton =
            open.load().map_err(LabError::bpf_error("load the generator's BPF program"))?;
        let failed = "watch the generator's BPF program";
        let map = MapHandle::try_from(&skeleton.maps.bss).map_err(LabError::bpf_error(failed))?;
        let offset = offset_of!(bpf_skeleton::types::bss, outcome)
            + offset_of!(bpf_skeleton::types::outcome, paced)
            + offset_of!(bpf_skeleton::types::paced, ended_ns);
        Ok(FrameGenerator {
            bpf_skeleton: skeleton,
            table,
            frames: 0,
            test_run_interrupter: StoppedTestRunInterrupter::spawn_thread(
                map,
                offset,
                raise_priority_above_generator,
            )?,
        })
    }

    /// Fills the table, each frame addressed and tagged with `magic`.
    ///
    /// # Errors
    /// If the kernel refuses, or a frame cannot be sent.
    pub fn load_frames(
        &mut self,
        frames: &[Frame],
        magic: u32,
        destination: Mac,
        source: Mac,
    ) -> Result<(), LabError> {
        assert!(magic != 0, "an empty tag has 0");
        let table = FrameTableSize::sized_for(frames);
        if !self.table.can_hold_table_of_size(table) {
            // The kernel has no way to make a table larger.
            *self = FrameGenerator::with_table_size(table)?;
        }
        let slot = self.table.slot_bytes();
        let mut keys = Vec::with_capacity(frames.len() * 4);
        let mut values = Vec::with_capacity(frames.len() * (8 + slot));
        for (number, frame) in frames.iter().enumerate() {
            let number = number as u32;
            let bytes = build_tagged_frame(frame, magic, number, destination, source)
                .map_err(|message| LabError::UnsendableFrames { path: "frames".into(), message })?;
            keys.extend_from_slice(&number.to_ne_bytes());
            values.extend_from_slice(&(bytes.len() as u16).to_ne_bytes());
            values.extend_from_slice(&u16::from(frame.to_drop).to_ne_bytes());
            values.extend_from_slice(&[0; 4]);
            values.extend_from_slice(&bytes);
            values.resize(values.len() + slot - bytes.len(), 0);
        }
        self.frames = frames.len() as u32;
        let maps = &self.bpf_skeleton.maps;
        let table = if self.table.is_large { &maps.large_frames } else { &maps.frames };
        table
            .update_batch(&keys, &values, self.frames, MapFlags::ANY, MapFlags::ANY)
            .map_err(LabError::bpf_error("fill the table of frames"))
    }

    /// Plays into the device with index `ifindex` of `namespace`, on the current core.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn send_frames(
        &mut self,
        namespace: &Namespace,
        ifindex: u32,
        send_plan: &SendPlan,
    ) -> Result<SendResult, LabError> {
        assert!(self.frames > 0, "the table of frames is filled first");
        self.write_send_parameters_and_reset_outcome(ifindex, send_plan);
        let pages =
            count_pages_for_trial(send_plan.duration, send_plan.rate_pps, send_plan.packets_max);
        let first_page = vec![0; self.table.slot_bytes()];
        let program = &self.bpf_skeleton.progs.weir_generate;
        let is_silent = || self.read_bpf_outcome().paced.ended_ns != 0;
        let test_run_interrupter = &self.test_run_interrupter;
        run_live_frames_until_silent(
            program,
            test_run_interrupter,
            namespace,
            send_plan.duration,
            &first_page,
            pages,
            &is_silent,
        )?;
        Ok(to_send_result(&self.read_bpf_outcome()))
    }

    fn write_send_parameters_and_reset_outcome(&mut self, ifindex: u32, send_plan: &SendPlan) {
        let bss =
            self.bpf_skeleton.maps.bss_data.as_deref_mut().expect("the program has variables");
        bss.outcome =
            bpf_skeleton::types::outcome { random: send_plan.seed | 1, ..Default::default() };
        bss.control = bpf_skeleton::types::control {
            pace: bpf_skeleton::types::pace {
                duration_ns: send_plan.duration.as_nanos() as u64,
                rate: send_plan.rate_pps,
                most: send_plan.packets_max,
                catch_up: MAX_CATCH_UP_BURST_FRAMES,
            },
            ifindex,
            frames: self.frames,
            shuffled: send_plan.shuffled.into(),
            ..Default::default()
        };
    }

    fn read_bpf_outcome(&self) -> bpf_skeleton::types::outcome {
        let bss = self.bpf_skeleton.maps.bss_data.as_deref().expect("the program has variables");
        // SAFETY: a valid, aligned reference; the kernel wrote to it in the meantime, which the
        // compiler does not know.
        unsafe { std::ptr::read_volatile(&raw const bss.outcome) }
    }
}

fn to_send_result(outcome: &bpf_skeleton::types::outcome) -> SendResult {
    let paced = &outcome.paced;
    assert_eq!(paced.broken, 0, "pages are longer than frames");
    SendResult {
        offered: paced.made,
        to_drop: outcome.to_drop,
        skipped_behind_schedule: paced.given_up,
        finished: paced.ended_ns != 0,
        seconds: paced.ended_ns.saturating_sub(paced.started_ns) as f64 / 1e9,
    }
}
