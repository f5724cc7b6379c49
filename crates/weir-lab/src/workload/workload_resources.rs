//! Resources of workloads: topology, generator and ends, reused from trial to trial.

use weir_stats::Scenario;
use weir_study::{ConnectionPath, Endpoints};

use crate::LabError;
use crate::bpf_program::frame_generator::{FrameGenerator, SendPlan, SendResult};
use crate::bpf_program::stateless_tcp::StatelessTcpEndpoints;
use crate::frames::Frame;
use crate::topology::{FirewallWithCounters, Topology};

/// What workloads send with.
pub(crate) struct WorkloadResources {
    pub(crate) topology: Topology,
    generator: FrameGenerator,
    /// Clients and servers, in a study of connections.
    pub(crate) tcp_endpoints: Option<StatelessTcpEndpoints>,
    /// The core that everything happens on.
    pub(crate) core: u32,
    /// Short bursts may run before everything else.
    pub(crate) realtime: bool,
    loaded_frames_scenario: Option<Scenario>,
    /// How often the tag was changed.
    tag_generation: u32,
    /// The next client address of sockets, counted from the first.
    next_client_index: u32,
}

impl WorkloadResources {
    /// Nothing is loaded yet.
    pub(crate) fn new(
        topology: Topology,
        core: u32,
        realtime: bool,
    ) -> Result<WorkloadResources, LabError> {
        let generator = FrameGenerator::new()?;
        Ok(WorkloadResources {
            topology,
            generator,
            tcp_endpoints: None,
            core,
            realtime,
            loaded_frames_scenario: None,
            tag_generation: 0,
            next_client_index: 0,
        })
    }

    /// Puts the frames of `part` into the generator's table, where others are there.
    pub(crate) fn load_frames_into_generator(
        &mut self,
        part: &Scenario,
        frames: &[Frame],
        seed: u64,
    ) -> Result<(), LabError> {
        if self.loaded_frames_scenario.as_ref() == Some(part) {
            return Ok(());
        }
        let magic = self.next_trial_tag(seed);
        let (to, from) = self.topology.firewall_and_source_macs();
        self.generator.load_frames(frames, magic, to, from)?;
        self.topology.sink().set_expected_tag(magic);
        self.loaded_frames_scenario = Some(part.clone());
        Ok(())
    }

    /// Another word each time: a packet that is late belongs to no trial.
    pub(crate) fn next_trial_tag(&mut self, seed: u64) -> u32 {
        self.tag_generation += 1;
        (seed as u32) << 16 | self.tag_generation
    }

    /// The first of so many client addresses that a trial of sockets uses: the next ones each time,
    /// for the ports of the last ones wait in TIME_WAIT.
    pub(crate) fn reserve_clients_and_get_first_index(&mut self, clients: u32) -> u32 {
        let first = self.next_client_index;
        self.next_client_index = first.wrapping_add(clients);
        first
    }

    /// Creates what is between clients and servers of the small TCP, and these with the first one.
    pub(crate) fn create_stateless_tcp_path(
        &mut self,
        path: ConnectionPath,
        endpoints: &Endpoints,
    ) -> Result<FirewallWithCounters, LabError> {
        if self.tcp_endpoints.is_none() {
            let (to, from) = self.topology.firewall_and_source_macs();
            self.tcp_endpoints = Some(StatelessTcpEndpoints::new(endpoints, to, from)?);
        }
        let ends = self.tcp_endpoints.as_mut().expect("made just now");
        self.topology.create_path_between_endpoints(path, ends, endpoints)
    }

    /// Plays what is loaded through a firewall, on the current core.
    pub(crate) fn send_frames(
        &mut self,
        firewall: &FirewallWithCounters,
        send_plan: &SendPlan,
    ) -> Result<SendResult, LabError> {
        self.send_frames_into_device(firewall.send_ifindex, send_plan)
    }

    /// Plays what is loaded into a device of the source, on the current core.
    pub(crate) fn send_frames_into_device(
        &mut self,
        ifindex: u32,
        send_plan: &SendPlan,
    ) -> Result<SendResult, LabError> {
        let source = self.topology.source_namespace().clone();
        self.generator.send_frames(&source, ifindex, send_plan)
    }
}
