//! The flags of the Ceph lab: what each may be, and what they must be to each other.
//!
//! Promises that none is ignored or cut: a flag without effect is refused before anything is made.

use super::cluster::release::Release;
use super::cluster::shape::Store;
use crate::engine::lab::{For, Setting, Values};
use crate::engine::request::{Request, check_library, check_stand_in};
use crate::engine::understood::NotUnderstood;
use anyhow::{Context, Result, bail};
use std::fs::File;

/// `rados bench` writes for so long in one go.
const MOST_SECONDS: u64 = 86_400;
/// An OSD takes eight ports at most, and a cluster has `configuration::PORTS`.
const MOST_OSDS: u64 = 32;

const fn of_up(name: &'static str, value: &'static str, default: &'static str, values: Values) -> Setting {
    Setting { name, value, values, of: For::Only("up"), default: Some(default), help: "" }
}

const fn of_run(
    name: &'static str,
    value: &'static str,
    default: Option<&'static str>,
    values: Values,
) -> Setting {
    Setting { name, value, values, of: For::Only("run"), default, help: "" }
}

pub static SETTINGS: &[Setting] = &[
    Setting {
        help: "run: ceph.conf of an existing cluster, which stays as it is",
        ..of_run("conf", "FILE", None, Values::Text)
    },
    Setting { help: "run: its pool for objects of the test", ..of_run("pool", "POOL", None, Values::Text) },
    Setting {
        help: "run: client name there, without 'client.'",
        ..of_run("id", "NAME", Some(OWN_ID), Values::Text)
    },
    Setting {
        help: "run: duration of each load",
        ..of_run("seconds", "N", Some("10"), Values::Number(1..=MOST_SECONDS))
    },
    Setting {
        help: "up: memstore, bluestore, filestore or kstore",
        ..of_up("store", "STORE", "bluestore", Values::OneOf(&Store::NAMES))
    },
    Setting {
        help: "up: number of OSDs, up to 32, spread over --allocators",
        ..of_up("osds", "N", "3", Values::Number(1..=MOST_OSDS))
    },
    Setting { help: "up: copies of an object", ..of_up("copies", "N", "1", Values::Number(1..=MOST_OSDS)) },
    Setting {
        name: "release",
        value: "N",
        values: Values::OneOf(&Release::NUMBERS),
        of: For::NewClusters,
        default: None,
        help: "up, experiments: Ceph 14.2, 16.2, 18.2 or 20.2, each from its Debian [default: this machine's]",
    },
];

/// Experiments whose OSDs are of a release that is linked with TCMalloc: they download a Debian first, so what
/// they need beside it is looked for before.
const LINKED_WITH_TCMALLOC: [(&str, &str); 2] = [
    ("many-threads", "Ceph 14.2, which has two threads for each connection"),
    ("memory-target", "Ceph 14.2 and 18.2"),
];

/// Object stores without which an experiment has nothing to say, by plan.
const STORES: [(&str, bool, Store); 3] = [
    ("journal", true, Store::Filestore),
    ("key-value", true, Store::Kstore),
    ("key-value", false, Store::Filestore),
];

/// Our id in a cluster unless `--id` says otherwise.
pub const OWN_ID: &str = "admin";

/// Checks that the settings of one action fit each other.
pub fn check(request: &Request) -> Result<()> {
    let given = |name: &str| request.settings.get(name).map(String::as_str);
    let refused = |text: String| Err(NotUnderstood(text).into());
    match request.action.as_str() {
        "run" if given("conf").is_some() && given("pool").is_none() => {
            refused("--conf needs --pool POOL: a pool for objects of the test".to_owned())
        }
        "run" if given("conf").is_some() => check_file(given("conf").unwrap_or_default()),
        "run" => {
            let lonely = [("pool", None), ("id", Some(OWN_ID))];
            let lonely =
                lonely.into_iter().find(|(name, default)| given(name) != *default && given(name).is_some());
            let Some((name, _)) = lonely else { return Ok(()) };
            refused(format!(
                "--{name} is for an existing cluster and needs its --conf FILE; without both `run` loads the \
                 cluster of `vcm lab ceph up`"
            ))
        }
        "up" => {
            let number = |name: &str| given(name).and_then(|text| text.parse().ok()).unwrap_or(1);
            let (osds, copies, allocators) = (number("osds"), number("copies"), request.allocators.len());
            if copies > osds {
                return refused(format!("--copies {copies} needs as many OSDs: --osds {copies}"));
            }
            if allocators > osds {
                return refused(format!("{allocators} allocators need as many OSDs: --osds {allocators}"));
            }
            let store = given("store").map_or(Ok(Store::Bluestore), Store::of)?;
            check_store(release_of(request), store)?;
            check_libraries(request, release_of(request))
        }
        action => check_experiment(request, action),
    }
}

fn release_of(request: &Request) -> Release {
    let asked = request.settings.get("release").and_then(|number| Release::of(number));
    asked.unwrap_or_else(Release::own)
}

/// The other Debians that have the releases of an experiment.
pub fn debians(request: &Request) -> Vec<&'static str> {
    let releases = match request.action.as_str() {
        "memory-target" if !request.quick => vec![Release::Nautilus, Release::Reef],
        "memory-target" | "many-threads" => vec![Release::Nautilus],
        _ => vec![release_of(request)],
    };
    releases.into_iter().filter(|release| *release != Release::own()).map(Release::suite).collect()
}

fn check_experiment(request: &Request, action: &str) -> Result<()> {
    let asked = request.settings.get("release");
    if let Some((name, what)) = LINKED_WITH_TCMALLOC.iter().find(|(name, _)| *name == action) {
        if asked.is_some() {
            bail!(NotUnderstood(format!("`{name}` uses {what} and takes no --release")));
        }
        return check_stand_in(request, &allocators_of(request, &["vcmalloc"]));
    }
    let release = release_of(request);
    for (_, _, store) in
        STORES.iter().filter(|(name, quick, _)| *name == action && (*quick || !request.quick))
    {
        check_store(release, *store)?;
    }
    let mimalloc = request.allocators.iter().find(|name| name.starts_with("mimalloc"));
    if let (Some(name), Release::Nautilus) = (mimalloc, release) {
        bail!(NotUnderstood(format!("Debian {} has no {name}", release.suite())));
    }
    match asked {
        Some(_) => check_libraries(request, release),
        None => Ok(()),
    }
}

fn check_store(release: Release, store: Store) -> Result<()> {
    if release.has(store) {
        return Ok(());
    }
    let others =
        Release::NUMBERS.iter().filter(|number| Release::of(number).is_some_and(|one| one.has(store)));
    let others: Vec<&str> = others.copied().collect();
    bail!(NotUnderstood(format!(
        "Ceph {} has no {}; {} have: --release",
        release.number(),
        store.name(),
        others.join(" and ")
    )))
}

/// A release may be linked with TCMalloc, and vcmalloc takes its place there.
fn check_libraries(request: &Request, release: Release) -> Result<()> {
    match release.links_tcmalloc() {
        true => check_stand_in(request, &allocators_of_up(request)),
        false => check_library(request, &allocators_of_up(request)),
    }
}

/// The allocators that the OSDs of `up` take turns among.
pub fn allocators_of_up(request: &Request) -> Vec<&str> {
    allocators_of(request, &["vcmalloc"])
}

fn allocators_of<'a>(request: &'a Request, otherwise: &[&'a str]) -> Vec<&'a str> {
    match request.allocators.is_empty() {
        true => otherwise.to_vec(),
        false => request.allocators.iter().map(String::as_str).collect(),
    }
}

fn check_file(conf: &str) -> Result<()> {
    let kind = File::open(conf).and_then(|file| file.metadata());
    match kind.with_context(|| format!("--conf: cannot read {conf}"))?.is_file() {
        true => Ok(()),
        false => bail!("--conf: {conf} is not a file; give the cluster's ceph.conf"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::lab::check_settings;
    use crate::engine::understood::is_not_understood;

    fn refusal(action: &str, settings: &[(&str, &str)], allocators: usize) -> Option<String> {
        let default = |setting: &Setting| Some((setting.name.to_owned(), setting.default?.to_owned()));
        let (library, stand_in) = (Ok("libvcmalloc.so".into()), Ok("libtcmalloc.so.4".into()));
        let mut request = Request { action: action.to_owned(), library, stand_in, ..Request::default() };
        request.settings = SETTINGS.iter().filter_map(default).collect();
        request.settings.extend(settings.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        request.allocators = vec!["glibc".to_owned(); allocators];
        let settings = check_settings(SETTINGS, "ceph", &request);
        let error = settings.map_err(anyhow::Error::from).and_then(|()| check(&request)).err()?;
        assert!(is_not_understood(&error), "{error}");
        Some(error.to_string())
    }

    #[test]
    fn what_would_be_ignored_or_cut_is_refused() {
        assert_eq!(refusal("up", &[], 3), None);
        assert_eq!(refusal("run", &[], 0), None);
        assert_eq!(refusal("run", &[("conf", "Cargo.toml"), ("pool", "x"), ("id", "me")], 0), None);
        assert_eq!(refusal("thread-cache", &[], 5), None);
        assert_eq!(refusal("thread-cache", &[("release", "20.2")], 5), None);
        assert_eq!(refusal("key-value", &[("release", "18.2")], 5), None, "the quick plan has no FileStore");
        let refused = [
            ("run", "pool", "x", "--pool is for an existing cluster and needs its --conf FILE"),
            ("run", "id", "me", "--id is for an existing cluster and needs its --conf FILE"),
            ("run", "conf", "x", "--conf needs --pool POOL"),
            ("thread-cache", "conf", "x", "--conf is for `vcm lab ceph run`; `thread-cache` does not"),
            ("thread-cache", "osds", "5", "--osds is for `vcm lab ceph up`; `thread-cache` does not"),
            ("up", "osds", "0", "--osds is a number from 1 to 32, not '0'"),
            ("up", "osds", "33", "--osds is a number from 1 to 32, not '33'"),
            ("up", "copies", "4", "--copies 4 needs as many OSDs: --osds 4"),
            ("up", "store", "foo", "--store is memstore, bluestore, filestore or kstore, not 'foo'"),
            ("up", "release", "15.2", "--release is 14.2, 16.2, 18.2 or 20.2, not '15.2'"),
            (
                "run",
                "release",
                "18.2",
                "--release is for `vcm lab ceph up` and experiments; `run` does not take it",
            ),
            ("many-threads", "release", "18.2", "`many-threads` uses Ceph 14.2"),
            ("journal", "release", "18.2", "Ceph 18.2 has no filestore; 14.2 and 16.2 have"),
            ("key-value", "release", "20.2", "Ceph 20.2 has no kstore; 14.2 and 16.2 and 18.2 have"),
        ];
        for (action, name, value, message) in refused {
            let said = refusal(action, &[(name, value)], 0).unwrap_or_default();
            assert!(said.contains(message), "{action} --{name} {value}: {said}");
        }
        assert!(refusal("up", &[], 4).unwrap().contains("4 allocators need as many OSDs: --osds 4"));
        assert!(
            refusal("up", &[("release", "18.2"), ("store", "filestore")], 0).unwrap().contains("18.2 has no")
        );
    }

    #[test]
    fn a_library_that_was_not_found_keeps_from_coming_up_only_what_needs_it() {
        let said = |allocators: &[&str]| {
            let allocators = allocators.iter().map(|name| name.to_string()).collect();
            let library = Err("libvcmalloc.so was not found".to_owned());
            let request = Request { action: "up".to_owned(), allocators, library, ..Request::default() };
            check(&request).err().map(|error| error.to_string())
        };
        assert_eq!(said(&[]).as_deref(), Some("libvcmalloc.so was not found"));
        assert_eq!(said(&["vcmalloc-1M"]).as_deref(), Some("libvcmalloc.so was not found"));
        assert_eq!(said(&["jemalloc"]), None);
    }

    #[test]
    fn every_name_that_may_be_typed_is_known() {
        assert!(Store::NAMES.iter().all(|name| Store::of(name).is_ok()));
        assert!(Release::NUMBERS.iter().all(|number| Release::of(number).is_some()));
    }
}
