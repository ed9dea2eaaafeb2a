use super::*;

struct Machine {
    _folder: tempfile::TempDir,
    root: Root,
}

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        let (_folder, root) = Root::with_files(files);
        Machine { _folder, root }
    }

    fn link(&self, target: &str, path: &str) {
        self.root.link(target, path);
    }
}

const OSD: (&str, &str) = (
    "/lib/systemd/system/ceph-osd@.service",
    "[Service]\nEnvironment=CLUSTER=ceph\nEnvironmentFile=-/etc/default/ceph\n\
     ExecStart=/usr/bin/ceph-osd -f \\\n  --id %i\n",
);
const GLUSTERD: (&str, &str) =
    ("/lib/systemd/system/glusterd.service", "[Service]\nExecStart=-/usr/sbin/glusterd\n");

#[test]
fn an_instance_is_made_of_its_template_and_all_drop_ins_in_the_order_of_their_names() {
    let machine = Machine::new(&[
        OSD,
        ("/etc/systemd/system/ceph-osd@3.service.d/50-own.conf", ""),
        ("/etc/systemd/system/ceph-osd@.service.d/10-all.conf", ""),
        ("/etc/systemd/system/ceph-osd@.service.d/50-own.conf", ""),
        ("/run/systemd/system/ceph-.service.d/70-wide.conf", ""),
    ]);
    let unit = find(&machine.root, "ceph-osd@3").unwrap();
    assert_eq!((unit.name.as_str(), unit.asked_as.as_ref()), ("ceph-osd@3.service", None));
    assert_eq!(unit.program(&machine.root), Some("/usr/bin/ceph-osd".into()));
    let names: Vec<String> = unit.drop_ins.iter().map(|path| path.display().to_string()).collect();
    assert_eq!(
        names,
        [
            "/etc/systemd/system/ceph-osd@.service.d/10-all.conf",
            "/etc/systemd/system/ceph-osd@3.service.d/50-own.conf",
            "/run/systemd/system/ceph-.service.d/70-wide.conf",
        ]
    );
}

#[test]
fn environment_files_are_stronger_and_an_empty_value_drops_what_was_there() {
    let machine = Machine::new(&[
        OSD,
        ("/etc/default/ceph", "# comment\nTCMALLOC_X=1\nexport LD_PRELOAD='/a.so'\n"),
        (
            "/etc/systemd/system/ceph-osd@3.service.d/a.conf",
            "[Service]\nEnvironment=\nEnvironment=\"A=one two\" B=50%% LD_PRELOAD=/b.so\n",
        ),
    ]);
    let unit = find(&machine.root, "ceph-osd@3.service").unwrap();
    let pairs: Vec<(String, String)> =
        unit.assignments(&machine.root).into_iter().map(|set| (set.name, set.value)).collect();
    let expected = [
        ("A", "one two"),
        ("B", "50%"),
        ("LD_PRELOAD", "/b.so"),
        ("TCMALLOC_X", "1"),
        ("LD_PRELOAD", "/a.so"),
    ];
    assert_eq!(pairs, expected.map(|(name, value)| (name.to_string(), value.to_string())));
}

#[test]
fn an_alias_leads_to_the_unit_behind_it() {
    let machine = Machine::new(&[GLUSTERD]);
    machine.link("/lib/systemd/system/glusterd.service", "/etc/systemd/system/glusterfs-server.service");
    let unit = find(&machine.root, "glusterfs-server").unwrap();
    assert_eq!(unit.name, "glusterd.service");
    assert_eq!(unit.asked_as.as_deref(), Some("glusterfs-server.service"));
    assert_eq!(unit.program(&machine.root), Some("/usr/sbin/glusterd".into()));
}

#[test]
fn wrong_names_are_answered_with_the_right_ones() {
    let machine = Machine::new(&[OSD, GLUSTERD]);
    machine.link(
        "/lib/systemd/system/ceph-osd@.service",
        "/etc/systemd/system/ceph-osd.target.wants/ceph-osd@7.service",
    );
    machine.link("/dev/null", "/etc/systemd/system/masked.service");
    let wrong = |name: &str| find(&machine.root, name).unwrap_err();
    let nearest = |name: &str| NoUnit::Unknown { nearest: vec![name.to_string()] };
    assert_eq!(wrong("glusterdd"), nearest("glusterd"));
    assert_eq!(wrong("osd.3"), nearest("ceph-osd@3"));
    assert_eq!(wrong("ceph-ods@4"), nearest("ceph-osd@4"));
    let instances = vec!["ceph-osd@7".to_string()];
    assert_eq!(wrong("ceph-osd"), NoUnit::NeedsInstance { template: "ceph-osd".into(), instances });
    assert_eq!(wrong("glusterd@1"), NoUnit::NoTemplate { service: "glusterd".into() });
    assert_eq!(wrong("masked"), NoUnit::Masked { name: "masked.service".into() });
    assert_eq!(wrong("../../etc/passwd"), NoUnit::BadName);
    assert_eq!(wrong("zzzzzz"), NoUnit::Unknown { nearest: Vec::new() });
}

#[test]
fn quoted_words_are_read_back() {
    for word in ["A=one two", "A=50%", "A=a\"b\\c", "A="] {
        assert_eq!(file::words(&file::quoted(word)), [word.replace('%', "%%")]);
    }
}

#[test]
fn the_program_of_a_shells_line_is_what_the_shell_becomes() {
    for (line, program) in [
        ("!/usr/sbin/chronyd $OPTS", "/usr/sbin/chronyd"),
        ("/bin/sh -c \"[ -e /x ] || exit 1; \\\n exec /usr/sbin/mariadbd $A\"", "/usr/sbin/mariadbd"),
        ("/bin/sh -c 'exec /usr/sbin/a'", "/usr/sbin/a"),
        ("/bin/sh -c 'exec /usr/sbin/a || exec /usr/sbin/b'", "/bin/sh"),
        ("/bin/sh /usr/bin/script exec /x", "/bin/sh"),
        ("/bin/sh -c 'podman run x'", "/bin/sh"),
    ] {
        let text = format!("[Service]\nExecStart={line}\n");
        let (_folder, root) = Root::with_files(&[("/etc/systemd/system/a.service", text.as_str())]);
        assert_eq!(find(&root, "a").unwrap().program(&root), Some(PathBuf::from(program)), "{line}");
    }
}
