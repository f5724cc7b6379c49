//! Resources of workloads: topology, generator and ends, reused from trial to trial.

use weir_stats::Scenario;
use weir_study::{ConnectionLoad, ConnectionPath};

use crate::LabError;
use crate::frames::Frame;
use crate::program::generator::{Generator, Play, Played};
use crate::program::tcp::TcpEnds;
use crate::topology::{TestFirewall, Topology};

/// What workloads send with.
pub(crate) struct Stage {
    pub(crate) topology: Topology,
    generator: Generator,
    /// Clients and servers, in a study of connections.
    pub(crate) ends: Option<TcpEnds>,
    /// The core that everything happens on.
    pub(crate) core: u32,
    /// Short bursts may run before everything else.
    pub(crate) realtime: bool,
    loaded: Option<Scenario>,
    /// How often the tag was changed.
    fillings: u32,
    /// The next client address of sockets, counted from the first.
    next_client: u32,
}

impl Stage {
    /// Nothing is loaded yet.
    pub(crate) fn new(topology: Topology, core: u32, realtime: bool) -> Result<Stage, LabError> {
        let generator = Generator::new()?;
        Ok(Stage {
            topology,
            generator,
            ends: None,
            core,
            realtime,
            loaded: None,
            fillings: 0,
            next_client: 0,
        })
    }

    /// Puts the frames of `part` into the generator's table, where others are there.
    pub(crate) fn load_frames(
        &mut self,
        part: &Scenario,
        frames: &[Frame],
        seed: u64,
    ) -> Result<(), LabError> {
        if self.loaded.as_ref() == Some(part) {
            return Ok(());
        }
        let magic = self.next_magic(seed);
        let (to, from) = self.topology.macs();
        self.generator.load_frames(frames, magic, to, from)?;
        self.topology.sink().expect(magic);
        self.loaded = Some(part.clone());
        Ok(())
    }

    /// Another word each time: a packet that is late belongs to no trial.
    pub(crate) fn next_magic(&mut self, seed: u64) -> u32 {
        self.fillings += 1;
        (seed as u32) << 16 | self.fillings
    }

    /// The first of so many client addresses that a trial of sockets uses: the next ones each time,
    /// for the ports of the last ones wait in TIME_WAIT.
    pub(crate) fn next_client(&mut self, clients: u32) -> u32 {
        let first = self.next_client;
        self.next_client = first.wrapping_add(clients);
        first
    }

    /// Makes a firewall, for frames or for connections.
    pub(crate) fn firewall(
        &mut self,
        connection_load: Option<&ConnectionLoad>,
        ipv6: bool,
    ) -> Result<TestFirewall, LabError> {
        match connection_load {
            None => self.topology.firewall(ipv6),
            Some(connection_load) => self.between(ConnectionPath::Gateway, connection_load),
        }
    }

    /// Makes what is between clients and servers.
    pub(crate) fn between(
        &mut self,
        path: ConnectionPath,
        ConnectionLoad { endpoints, sockets, .. }: &ConnectionLoad,
    ) -> Result<TestFirewall, LabError> {
        if let Some(sockets) = sockets {
            return self.topology.firewall_for_sockets(endpoints, sockets.ports());
        }
        if self.ends.is_none() {
            let (to, from) = self.topology.macs();
            self.ends = Some(TcpEnds::new(endpoints, to, from)?);
        }
        let ends = self.ends.as_mut().expect("made just now");
        self.topology.between(path, ends, endpoints)
    }

    /// Plays what is loaded through a firewall, on the current core.
    pub(crate) fn play(
        &mut self,
        firewall: &TestFirewall,
        play: &Play,
    ) -> Result<Played, LabError> {
        self.play_into(firewall.ifindex, play)
    }

    /// Plays what is loaded into a device of the source, on the current core.
    pub(crate) fn play_into(&mut self, ifindex: u32, play: &Play) -> Result<Played, LabError> {
        let source = self.topology.source().clone();
        self.generator.play(&source, ifindex, play)
    }
}
