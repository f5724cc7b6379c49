//! Checks of the path between a study's clients and servers.

use weir_stats::Coordinate;

use crate::StudyError;
use crate::connection_path::{ConnectionPath, MAX_ONE_ARMED_NEIGHBOURS};
use crate::loaded_study::LoadedStudy;
use crate::toml_text::{error_at_offset, table_header_offset};
use crate::traffic::ConnectionLoad;

impl LoadedStudy {
    /// Whether its subjects' paths fit its traffic, and its axes of clients and servers.
    pub(crate) fn check_connection_paths(&self) -> Result<(), StudyError> {
        for name in &self.study.subjects {
            let (name, at) = (name.get_ref(), name.span().start);
            if let Some(why) = self.unsupported_path_reason(name) {
                let message = format!("subject `{name}` {why}");
                return Err(error_at_offset(&self.path, &self.text, at, message));
            }
        }
        let Some(load) = self.study.connection_load() else { return Ok(()) };
        let ConnectionLoad { endpoints, clients_axis, servers_axis, .. } = load;
        self.check_endpoint_axis(clients_axis.as_ref(), "clients", endpoints.client_count)?;
        self.check_endpoint_axis(servers_axis.as_ref(), "servers", endpoints.server_count)
    }

    /// Why a subject's path does not go with this study.
    pub(crate) fn unsupported_path_reason(&self, name: &str) -> Option<String> {
        let subject = &self.subjects.0[name];
        let load = match (subject.path, self.study.connection_load()) {
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
        let neighbours = endpoints.client_count.saturating_add(endpoints.server_count);
        match subject.path {
            ConnectionPath::Direct if !subject.baseline => Some(
                "takes the direct path, where nothing can filter: it must be a `baseline`"
                    .to_owned(),
            ),
            ConnectionPath::OneArmed if neighbours > MAX_ONE_ARMED_NEIGHBOURS => Some(format!(
                "takes the one-armed path, where clients and servers are neighbours: at most \
                 {MAX_ONE_ARMED_NEIGHBOURS} together, not {neighbours}"
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
        let at = table_header_offset(&self.text, "traffic");
        self.check_axis_exists(axis, at)?;
        let is_one = |value: &&Coordinate| {
            value.as_number().is_some_and(|count| (1..=u64::from(most)).contains(&count))
        };
        match self.study.axes[axis].values.iter().find(|value| !is_one(value)) {
            None => Ok(()),
            Some(value) => {
                let message = format!("axis `{axis}` has {value}, and there are {most} {who}");
                Err(error_at_offset(&self.path, &self.text, at, message))
            }
        }
    }
}
