//! The commands that a finding proposes, as they fit the way in which the daemon runs: as a service of systemd,
//! in a container, or started by hand.

use super::survey::Daemon;
use crate::restart;
use vcm_foreign::Shown;
use vcm_front::say;
use vcm_inspect::daemon::Role;

impl Daemon {
    /// The service that starts it, as `systemctl` calls it. Of a container only one of its own, as cephadm's
    /// are: another would be that of all containers.
    pub fn service(&self) -> Option<String> {
        let unit = self.unit_name.as_deref().filter(|_| self.unit.is_some())?;
        let is_own = !self.is_contained || unit.contains(&format!("@{}.", self.label));
        is_own.then(|| unit.trim_end_matches(".service").to_string())
    }

    pub fn restarting(&self) -> Vec<String> {
        match self.service() {
            Some(service) => restart::lines(self.role, self.ceph_id(), &service),
            None => vec![self.by_hand("end it and start it again", "restart")],
        }
    }

    /// With what systemd must read again first.
    pub fn reloading(&self) -> Vec<String> {
        const READ_AGAIN: &str = "sudo systemctl daemon-reload";
        let mut lines = self.restarting();
        match lines.as_mut_slice() {
            _ if self.service().is_none() => {}
            // One line for each of many daemons, since what is common to all is shown once.
            [one] => *one = format!("{READ_AGAIN} && {one}"),
            _ => lines.insert(0, READ_AGAIN.into()),
        }
        lines
    }

    /// The command that stops it for work on its disks; `starting` is its other half.
    pub fn stopping(&self) -> String {
        let Some(service) = self.service() else { return self.by_hand("end it", "stop") };
        let stop = format!("sudo systemctl stop {service}");
        restart::question(self.role, self.ceph_id())
            .map_or(stop.clone(), |question| format!("{question} && {stop}"))
    }

    pub fn starting(&self) -> String {
        match self.service() {
            Some(service) => format!("sudo systemctl start {service}"),
            None if self.is_contained && self.role.is_ceph() => {
                format!("# start {} again{}", self.label, self.by_cephadm("start"))
            }
            None => format!("# start {} again", self.label),
        }
    }

    fn by_cephadm(&self, verb: &str) -> String {
        format!(" (cephadm: ceph orch daemon {verb} {})", say::typed([&self.label]))
    }

    /// Words where no command is known.
    fn by_hand(&self, what: &str, verb: &str) -> String {
        let asked = restart::question(self.role, self.ceph_id())
            .map_or(String::new(), |question| format!("when '{question}' agrees, "));
        match (self.is_contained, self.role) {
            (true, role) if role.is_ceph() => {
                format!("# in a container: {asked}{what} as it was started{}", self.by_cephadm(verb))
            }
            (true, _) => format!("# in a container: {what} as it was started"),
            (false, Role::Glusterfsd) => {
                format!("# not started by systemd: its glusterd and the bricks: {what}")
            }
            (false, _) => format!("# not started by systemd: {asked}{what}"),
        }
    }

    /// The guide that has the recipes for containers.
    pub fn guide(&self) -> &'static str {
        if self.role.is_gluster() { "docs/guides/gluster.md" } else { "docs/guides/ceph.md" }
    }

    /// The commands that give it an option of ours at its next start, and start it.
    pub fn setting(&self, option: &str, value: &str) -> Vec<String> {
        let first = match self.service().filter(|_| !self.is_contained) {
            Some(service) => format!("sudo vcm enable {service} --option {option}={value}"),
            None => {
                let variable = crate::settings::variable(option);
                let place = if self.is_contained {
                    format!("the container's environment ({}, 'Containers')", self.guide())
                } else {
                    "its environment".into()
                };
                format!("# set {variable}={value} in {place}, then:")
            }
        };
        std::iter::once(first).chain(self.reloading()).collect()
    }

    /// The commands that put it onto vcmalloc.
    pub fn enabling(&self) -> Vec<String> {
        if self.is_contained {
            return vec![format!("# in a container: {}, 'Containers'", self.guide())];
        }
        let Some(service) = self.service() else {
            // Bricks have the environment of the glusterd that starts them.
            let command = match self.role {
                Role::Glusterfsd => "glusterd".into(),
                _ => say::typed(self.command.iter().map(|word| word.shown().printed())),
            };
            return vec![
                "# not started by systemd; to start it on vcmalloc:".into(),
                format!("vcm run -- {command}"),
            ];
        };
        std::iter::once(format!("sudo vcm enable {service}")).chain(self.reloading()).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::verbs::doctor::fake::Fake;

    fn osd(cgroup: &str, root: &str) -> Fake {
        let fake = Fake::new();
        fake.osd();
        fake.write("/proc/103/cgroup", cgroup);
        fake.link(root, "/proc/103/root");
        fake
    }

    fn contained(cgroup: &str) -> Fake {
        let fake = osd(cgroup, "/container");
        fake.link("/etc", "/container/etc");
        fake
    }

    #[test]
    fn a_service_is_restarted_by_its_unit_when_the_cluster_agrees() {
        let fake = Fake::new();
        fake.osd();
        let daemon = &fake.survey().daemons[0];
        let restart = "ceph osd ok-to-stop 3 && sudo systemctl restart ceph-osd@3";
        assert_eq!(daemon.restarting(), [restart]);
        assert_eq!(daemon.reloading(), [format!("sudo systemctl daemon-reload && {restart}")]);
        assert_eq!(daemon.stopping(), "ceph osd ok-to-stop 3 && sudo systemctl stop ceph-osd@3");
        assert_eq!(daemon.starting(), "sudo systemctl start ceph-osd@3");
    }

    #[test]
    fn without_a_unit_words_take_the_place_of_commands() {
        let fake = osd("0::/user.slice/session-1.scope\n", "/");
        let daemon = &fake.survey().daemons[0];
        let words =
            "# not started by systemd: when 'ceph osd ok-to-stop 3' agrees, end it and start it again";
        assert_eq!(daemon.restarting(), [words]);
        assert_eq!(daemon.reloading(), [words]);
        assert_eq!(
            daemon.setting("cache_limit", "auto")[0],
            "# set VCM_CACHE_LIMIT=auto in its environment, then:"
        );
    }

    #[test]
    fn a_container_is_restarted_by_its_own_unit_and_by_no_other() {
        let fake = contained("0::/system.slice/containerd.service\n");
        fake.write("/lib/systemd/system/containerd.service", "[Service]\n");
        let lines = fake.survey().daemons[0].restarting();
        assert!(lines[0].starts_with("# in a container: when 'ceph osd ok-to-stop 3'"), "{lines:?}");
        assert!(lines[0].ends_with("(cephadm: ceph orch daemon restart osd.3)"), "{lines:?}");
        let fake = contained("0::/system.slice/ceph-1234@osd.3.service/container\n");
        fake.write("/etc/systemd/system/ceph-1234@.service", "[Service]\n");
        let daemon = &fake.survey().daemons[0];
        assert_eq!(daemon.restarting(), ["ceph osd ok-to-stop 3 && sudo systemctl restart ceph-1234@osd.3"]);
        assert!(
            daemon.setting("cache_limit", "auto")[0]
                .starts_with("# set VCM_CACHE_LIMIT=auto in the container's")
        );
    }
}
