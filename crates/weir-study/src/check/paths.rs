//! Checks of the path between a study's clients and servers.

use weir_stats::Coordinate;

use crate::StudyError;
use crate::loaded::LoadedStudy;
use crate::path::{ConnectionPath, NEIGHBOURS_MAX};
use crate::toml_text::{refused, table_start};
use crate::traffic::ConnectionLoad;

impl LoadedStudy {
    /// Whether its subjects' paths fit its traffic, and its axes of clients and servers.
    pub(crate) fn check_paths(&self) -> Result<(), StudyError> {
        for name in &self.study.subjects {
            let (name, at) = (name.get_ref(), name.span().start);
            if let Some(why) = self.unfit(name) {
                let message = format!("subject `{name}` {why}");
                return Err(refused(&self.path, &self.text, at, message));
            }
        }
        let Some(load) = self.study.connections() else { return Ok(()) };
        let ConnectionLoad { endpoints, clients_axis, servers_axis, .. } = load;
        self.check_endpoint_axis(clients_axis.as_ref(), "clients", endpoints.clients)?;
        self.check_endpoint_axis(servers_axis.as_ref(), "servers", endpoints.servers)
    }

    /// Why a subject's path does not go with this study.
    pub(crate) fn unfit(&self, name: &str) -> Option<String> {
        let subject = &self.subjects.0[name];
        let load = match (subject.path, self.study.connections()) {
            (ConnectionPath::Gateway, _) => return None,
            (_, None) => {
                return Some("has a `path`, which takes `[traffic]` of connections".to_owned());
            }
            (_, Some(load)) => load,
        };
        if load.sockets.is_some() {
            return Some("has a `path`: sockets only go through a gateway".to_owned());
        }
        let endpoints = &load.endpoints;
        let neighbours = endpoints.clients.saturating_add(endpoints.servers);
        match subject.path {
            ConnectionPath::Direct if !subject.baseline => Some(
                "takes the direct path, where nothing can filter: it must be a `baseline`"
                    .to_owned(),
            ),
            ConnectionPath::OneArmed if neighbours > NEIGHBOURS_MAX => Some(format!(
                "takes the one-armed path, where clients and servers are neighbours: at most \
                 {NEIGHBOURS_MAX} together, not {neighbours}"
            )),
            _ => None,
        }
    }

    /// Whether each value of an axis is a possible number of participants.
    fn check_endpoint_axis(
        &self,
        axis: Option<&String>,
        who: &str,
        most: u32,
    ) -> Result<(), StudyError> {
        let Some(axis) = axis else { return Ok(()) };
        let at = table_start(&self.text, "traffic");
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
