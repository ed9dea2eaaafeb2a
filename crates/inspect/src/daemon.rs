//! Recognising storage daemons among processes, by the program they run and the words they were started with.

use crate::loaded::REPLACED;
use crate::process::Process;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use vcm_foreign::Text;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    CephOsd,
    CephMon,
    CephMgr,
    CephMds,
    Radosgw,
    /// Serves bricks.
    Glusterfsd,
    Glusterd,
    /// A client mount, the self-heal daemon or an NFS server.
    Glusterfs,
    Other,
}

impl Role {
    pub fn of_program(name: &str) -> Self {
        match name {
            "ceph-osd" | "crimson-osd" => Role::CephOsd,
            "ceph-mon" => Role::CephMon,
            "ceph-mgr" => Role::CephMgr,
            "ceph-mds" => Role::CephMds,
            "radosgw" => Role::Radosgw,
            "glusterfsd" => Role::Glusterfsd,
            "glusterd" => Role::Glusterd,
            "glusterfs" => Role::Glusterfs,
            _ => Role::Other,
        }
    }

    /// By the program's file, since threads may rename a process; by its words where the file may not be read.
    pub fn of_process(process: &Process) -> Self {
        let of = |path: &OsStr| {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
            Role::of_program(name.trim_end_matches(REPLACED))
        };
        let first_word = process.command_line().ok().and_then(|words| words.into_iter().next());
        let by_word = first_word.map_or(Role::Other, |word| of(&word));
        let by_file = process.program().map_or(Role::Other, |path| of(path.as_os_str()));
        // glusterd and glusterfs are links to the program glusterfsd.
        if by_file == Role::Other || by_word.is_gluster() { by_word } else { by_file }
    }

    pub fn is_ceph(self) -> bool {
        matches!(self, Role::CephOsd | Role::CephMon | Role::CephMgr | Role::CephMds | Role::Radosgw)
    }

    pub fn is_gluster(self) -> bool {
        matches!(self, Role::Glusterfsd | Role::Glusterd | Role::Glusterfs)
    }

    pub fn name(self) -> &'static str {
        match self {
            Role::CephOsd => "ceph-osd",
            Role::CephMon => "ceph-mon",
            Role::CephMgr => "ceph-mgr",
            Role::CephMds => "ceph-mds",
            Role::Radosgw => "radosgw",
            Role::Glusterfsd => "glusterfsd",
            Role::Glusterd => "glusterd",
            Role::Glusterfs => "glusterfs",
            Role::Other => "other",
        }
    }

    /// Ceph's own word for the kind of daemon, the name of its section in ceph.conf.
    pub fn ceph_kind(self) -> &'static str {
        match self {
            Role::CephOsd => "osd",
            Role::CephMon => "mon",
            Role::CephMgr => "mgr",
            Role::CephMds => "mds",
            _ => "client",
        }
    }
}

/// The value of an argument, given as `--name value`, `--name=value` or by its short form.
pub fn argument(words: &[OsString], names: &[&str]) -> Option<Text> {
    argument_in(words, names).map(Text::from)
}

fn argument_in(words: &[OsString], names: &[&str]) -> Option<String> {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    words.iter().enumerate().find_map(|(at, word)| {
        names.iter().find_map(|name| {
            if word == name {
                return words.get(at + 1).cloned();
            }
            word.strip_prefix(name)?.strip_prefix('=').map(str::to_string)
        })
    })
}

/// The name that operators give it: `osd.3`, `mon.a`, the brick of a glusterfsd.
pub fn label(role: Role, words: &[OsString]) -> Text {
    label_in(role, words).into()
}

fn label_in(role: Role, words: &[OsString]) -> String {
    let argument = argument_in;
    let id = || {
        argument(words, &["-i", "--id"]).or_else(|| {
            argument(words, &["-n", "--name"])
                .and_then(|name| name.split_once('.').map(|(_, id)| id.to_string()))
        })
    };
    match role {
        Role::Other => words.first().map_or(String::new(), |word| {
            let name = word.to_string_lossy();
            let is_title = !name.starts_with(['/', '.']) && name.contains(' ');
            let mut parts =
                name.split(|sign| if is_title { [':', ' '].contains(&sign) } else { sign == '/' });
            let part = if is_title { parts.next() } else { parts.next_back() };
            part.unwrap_or_default().to_owned()
        }),
        _ if role.is_ceph() => {
            format!("{}.{}", role.ceph_kind(), id().unwrap_or_else(|| "?".into()))
        }
        Role::Glusterfsd => argument(words, &["--brick-name"])
            .map_or("glusterfsd".into(), |brick| format!("glusterfsd {brick}")),
        Role::Glusterfs => argument(words, &["--process-name"])
            .map_or("glusterfs".into(), |name| format!("glusterfs {name}")),
        _ => role.name().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn daemons_are_called_as_operators_call_them() {
        assert_eq!(label(Role::CephOsd, &words("/usr/bin/ceph-osd -f --cluster ceph --id 3")), "osd.3");
        assert_eq!(label(Role::CephMon, &words("ceph-mon -i a")), "mon.a");
        assert_eq!(label(Role::Radosgw, &words("radosgw -n client.rgw.x")), "client.rgw.x");
        assert_eq!(label(Role::CephOsd, &words("ceph-osd --id=12")), "osd.12");
        assert_eq!(label(Role::Glusterfsd, &words("glusterfsd -s h --brick-name /b/1")), "glusterfsd /b/1");
        assert_eq!(label(Role::Other, &words("/usr/bin/redis-server *:7000")), "redis-server");
        // The whole of a title is one word.
        let titled = |title: &str| label(Role::Other, &[OsString::from(title)]);
        assert_eq!(titled("/usr/bin/redis-server *:7000"), "redis-server *:7000");
        assert_eq!(titled("nginx: master process /usr/sbin/nginx -c /a/ngx.conf -g daemon on;"), "nginx");
        assert_eq!(titled("sshd: root@pts/0"), "sshd");
    }
}
