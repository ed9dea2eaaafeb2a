//! A ceph.conf of any bytes: settings that can be printed.

use std::path::Path;

use vcm_inspect::ceph::conf::{Asker, read};

pub fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let asker = Asker { cluster: "ceph", kind: "osd", id: "3" };
    for (name, setting) in read(&text, Path::new("/etc/ceph/ceph.conf"), &asker) {
        let hidden = |text: &str| text.chars().any(vcm_foreign::is_hidden);
        assert!(!hidden(&name) && !hidden(&setting.value) && !hidden(&setting.origin));
    }
}
