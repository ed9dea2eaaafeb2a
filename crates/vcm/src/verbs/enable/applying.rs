//! The steps once the files are there, or gone: the commands that apply, prove and undo it.
//!
//! Owns these texts. Nothing here is run.

use crate::restart;
use vcm_front::say;
use vcm_inspect::daemon::Role;
use vcm_inspect::root::Root;
use vcm_inspect::systemd::{self, Unit};

const NO_SYSTEMD: &str = "systemd does not run here (no /run/systemd/system).";

/// Whose unit it is.
pub struct Service<'a> {
    /// Without `.service`; with `@` at its end for all instances.
    pub name: &'a str,
    pub role: Role,
    /// The command that it starts, for where systemd does not.
    pub command: String,
}

impl<'a> Service<'a> {
    pub fn of(root: &Root, unit: &'a Unit) -> Self {
        let program = unit.program(root).unwrap_or_default();
        let file = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut service =
            Service { name: unit.stem(), role: Role::of_program(&file), command: String::new() };
        let line = unit.service_setting(root, "ExecStart").unwrap_or_default();
        let line = line.trim_start_matches(['-', '@', ':', '+', '!']).replace("%i", service.id());
        // A shell would know no variable of the unit's.
        service.command = unit
            .assignments(root)
            .iter()
            .fold(line, |line, set| line.replace(&format!("${{{}}}", set.name), &say::typed([&set.value])));
        service
    }

    /// One whose unit is gone.
    pub fn gone(name: &'a str) -> Self {
        Service { name, role: Role::Other, command: String::new() }
    }

    fn is_template(&self) -> bool {
        self.name.ends_with('@')
    }

    /// `3` of `ceph-osd@3`.
    fn id(&self) -> &str {
        self.name.split_once('@').map_or("", |(_, id)| id)
    }
}

/// The lines that make it take effect: files that are there, or gone.
pub fn applying(root: &Root, service: &Service, files_are_gone: bool) -> Vec<String> {
    if !root.is_real() {
        return vec!["It takes effect when that machine starts.".into()];
    }
    match systemd::is_running(root) {
        true => by_systemd(service),
        false if files_are_gone => back_without_systemd(),
        false => without_systemd(service),
    }
}

/// A container or a chroot: the files are read where systemd runs, if at all.
fn without_systemd(service: &Service) -> Vec<String> {
    let mut lines = vec![format!("{NO_SYSTEMD} The files take effect when systemd starts this system.")];
    if !service.command.is_empty() {
        lines.push("To start it on vcmalloc without systemd:".into());
        lines.push(format!("    vcm run -- {}", service.command));
    }
    lines
}

fn back_without_systemd() -> Vec<String> {
    vec![format!(
        "{NO_SYSTEMD} A process that runs on vcmalloc stays on it: stop it, and start it as before."
    )]
}

fn by_systemd(service: &Service) -> Vec<String> {
    let mut lines = vec!["To apply it:".to_string(), "    sudo systemctl daemon-reload".into()];
    if !service.is_template() {
        lines.extend(indented(restart::lines(service.role, service.id(), service.name)));
        lines.extend(indented(before_the_next(service.role)));
        return lines;
    }
    // One at a time keeps the data available.
    lines.push("    # then one after the other, for example:".into());
    lines.extend(indented(restart::lines(service.role, "0", &format!("{}0", service.name))));
    lines.extend(indented(before_the_next(service.role)));
    lines
}

/// The cluster must be whole again before another of its daemons stops.
fn before_the_next(role: Role) -> Vec<String> {
    if restart::question(role, "0").is_none() {
        return Vec::new();
    }
    vec!["until ceph health | grep -q HEALTH_OK; do sleep 5; done    # before the next one".into()]
}

/// The lines that show it.
pub fn proving(service: &Service, is_stand_in: bool) -> Vec<String> {
    let mut lines = vec!["To verify it:".to_string()];
    let all = service.is_template();
    lines.push(if all {
        "    sudo vcm doctor".into()
    } else {
        format!("    sudo vcm check {}", service.name)
    });
    if is_stand_in && service.role.is_ceph() && !all {
        let id = if service.id().is_empty() { "ID".into() } else { say::typed([service.id()]) };
        let kind = service.role.ceph_kind();
        lines.push(format!("    ceph tell {kind}.{id} heap stats    # begins with vcmalloc's figures"));
    }
    if service.role.is_gluster() {
        lines.push("    sudo vcm doctor gluster    # the bricks too".into());
    }
    lines
}

fn indented(lines: Vec<String>) -> impl Iterator<Item = String> {
    lines.into_iter().map(|line| format!("    {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, role: Role) -> Service<'_> {
        Service { name, role, command: "/usr/bin/daemon -f".into() }
    }

    #[test]
    fn an_osd_is_asked_for_first_and_health_comes_before_the_next() {
        for name in ["ceph-osd@0", "ceph-osd@"] {
            let lines = by_systemd(&service(name, Role::CephOsd));
            let at = |words: &str| lines.iter().position(|line| line.contains(words)).unwrap();
            let restart = at("ceph osd ok-to-stop 0 && sudo systemctl restart ceph-osd@0");
            assert!(at("daemon-reload") < restart && restart < at("HEALTH_OK"), "{lines:?}");
        }
    }

    #[test]
    fn bricks_are_ended_so_that_glusterd_starts_them_again() {
        let lines = by_systemd(&service("glusterd", Role::Glusterd)).join("\n");
        assert!(lines.contains("sudo pkill -x glusterfsd") && lines.contains("heal VOLUME info"), "{lines}");
        assert!(!lines.contains("HEALTH_OK"), "{lines}");
    }

    #[test]
    fn without_systemd_no_command_of_it_is_printed() {
        let text = without_systemd(&service("redis-server", Role::Other)).join("\n");
        assert!(text.contains("systemd does not run here") && !text.contains("systemctl restart"), "{text}");
        assert!(text.ends_with("    vcm run -- /usr/bin/daemon -f"), "{text}");
    }

    #[test]
    fn once_the_files_are_gone_nothing_is_started_on_vcmalloc() {
        let text = back_without_systemd().join("\n");
        assert!(text.ends_with("stop it, and start it as before.") && !text.contains("vcm run"), "{text}");
    }

    #[test]
    fn the_command_is_that_of_the_unit_without_systemds_own_signs() {
        let (_folder, root) = Root::with_files(&[(
            "/lib/systemd/system/ceph-osd@.service",
            "[Service]\nEnvironment=CLUSTER=ceph\nExecStart=-/usr/bin/ceph-osd -f --cluster ${CLUSTER} --id %i\n",
        )]);
        let unit = systemd::find(&root, "ceph-osd@3").unwrap();
        let service = Service::of(&root, &unit);
        assert_eq!(service.command, "/usr/bin/ceph-osd -f --cluster ceph --id 3");
        assert_eq!(service.role, Role::CephOsd);
    }

    #[test]
    fn the_proof_is_quoted() {
        let lines = proving(&service("ceph-osd@3", Role::CephOsd), true);
        assert_eq!(lines[1], "    sudo vcm check ceph-osd@3");
        assert!(lines[2].starts_with("    ceph tell osd.3 heap stats"));
    }
}
