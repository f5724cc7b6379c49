//! What a study may say of the way between its clients and servers.

use weir_stats::Coordinate;

use super::{Loaded, refused};
use crate::LabError;
use crate::topology::{NEIGHBOURS, Way};
use crate::traffic::Connecting;

impl Loaded {
    /// Whether its subjects' paths fit its traffic, and its axes of clients and servers.
    pub(super) fn check_paths(&self) -> Result<(), LabError> {
        for name in &self.study.subjects {
            let (name, at) = (name.get_ref(), name.span().start);
            if let Some(why) = self.unfit(name) {
                let message = format!("subject `{name}` {why}");
                return Err(refused(&self.path, &self.text, at, message));
            }
        }
        let Some(connecting) = self.study.connecting() else { return Ok(()) };
        let Connecting { parties, clients_axis, servers_axis, .. } = connecting;
        self.check_parties(clients_axis.as_ref(), "clients", parties.clients)?;
        self.check_parties(servers_axis.as_ref(), "servers", parties.servers)
    }

    /// Why a subject's path does not go with this study.
    pub(super) fn unfit(&self, name: &str) -> Option<String> {
        let subject = &self.subjects.0[name];
        let connecting = match (subject.path, self.study.connecting()) {
            (Way::Gateway, _) => return None,
            (_, None) => {
                return Some("has a `path`, which takes `[traffic]` of connections".to_owned());
            }
            (_, Some(connecting)) => connecting,
        };
        if connecting.sockets.is_some() {
            return Some("has a `path`: sockets take the way through a gateway only".to_owned());
        }
        let parties = &connecting.parties;
        let neighbours = parties.clients.saturating_add(parties.servers);
        match subject.path {
            Way::Direct if !subject.baseline => Some(
                "takes the direct path, where nothing is that could filter: it has to be a \
                 `baseline`"
                    .to_owned(),
            ),
            Way::OneArmed if neighbours > NEIGHBOURS => Some(format!(
                "takes the one-armed path, where clients and servers are neighbours: at most \
                 {NEIGHBOURS} together, not {neighbours}"
            )),
            _ => None,
        }
    }

    /// Whether each value of an axis is a number of those who are there.
    fn check_parties(&self, axis: Option<&String>, who: &str, most: u32) -> Result<(), LabError> {
        let Some(axis) = axis else { return Ok(()) };
        let at = self.text.find("[traffic]").unwrap_or(0);
        self.check_axis(axis, at)?;
        let is_one = |value: &&Coordinate| {
            value.number().is_some_and(|count| (1..=u64::from(most)).contains(&count))
        };
        match self.study.axes[axis].values.iter().find(|value| !is_one(value)) {
            None => Ok(()),
            Some(value) => {
                let message = format!("axis `{axis}` has {value}, and there are {most} {who}");
                Err(refused(&self.path, &self.text, at, message))
            }
        }
    }
}
