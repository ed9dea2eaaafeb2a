//! How a service of systemd is restarted so that data stays available meanwhile.
//!
//! Owns those commands; `vcm doctor` proposes them and `vcm enable` prints them.

use vcm_front::say;
use vcm_inspect::daemon::Role;

/// The question to a cluster before one of its daemons stops: it fails if data would not be available then.
pub fn question(role: Role, id: &str) -> Option<String> {
    let is_asked = matches!(role, Role::CephOsd | Role::CephMon | Role::CephMds) && !id.is_empty();
    is_asked.then(|| format!("ceph {} ok-to-stop {}", role.ceph_kind(), say::typed([id])))
}

/// The lines that restart it, each a command or words behind a `#`.
pub fn lines(role: Role, id: &str, service: &str) -> Vec<String> {
    if let Some(question) = question(role, id) {
        return vec![format!("{question} && sudo systemctl restart {service}")];
    }
    if matches!(role, Role::Glusterd | Role::Glusterfsd) {
        return vec![
            "# one node after the other, when 'gluster volume heal VOLUME info' lists nothing:".into(),
            format!("sudo systemctl stop {service}"),
            "sudo pkill -x glusterfsd    # bricks outlive their glusterd, on the allocator that they have"
                .into(),
            format!("sudo systemctl start {service}"),
        ];
    }
    vec![format!("sudo systemctl restart {service}")]
}

/// The line that takes vcmalloc out of a service again, also of one that has failed too often to be started.
pub fn way_back(service: &str) -> String {
    format!(
        "sudo vcm disable {service} && sudo systemctl daemon-reload && sudo systemctl reset-failed {service}; sudo systemctl \
         restart {service}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_osd_is_asked_for_first_and_bricks_are_ended_with_their_glusterd() {
        assert_eq!(
            lines(Role::CephOsd, "3", "ceph-osd@3"),
            ["ceph osd ok-to-stop 3 && sudo systemctl restart ceph-osd@3"]
        );
        assert_eq!(
            lines(Role::CephMon, "a;reboot", "x"),
            ["ceph mon ok-to-stop 'a;reboot' && sudo systemctl restart x"]
        );
        assert_eq!(lines(Role::Radosgw, "x", "y"), ["sudo systemctl restart y"]);
        let bricks = lines(Role::Glusterfsd, "", "glusterd");
        let at = |words: &str| bricks.iter().position(|line| line.starts_with(words)).unwrap();
        assert!(at("sudo systemctl stop glusterd") < at("sudo pkill -x glusterfsd"), "{bricks:?}");
        assert!(at("sudo pkill -x glusterfsd") < at("sudo systemctl start glusterd"), "{bricks:?}");
    }
}
