//! Options of jemalloc that do something else on ours, or nothing.

use crate::verbs::doctor::check::{Check, Severity, Source, Test, Verdict, every};
use crate::verbs::doctor::jemalloc;
use crate::verbs::doctor::survey::{Daemon, Survey};
use vcm_foreign::Shown;
use vcm_inspect::allocator::Kind;

pub const CHECK: Check = Check {
    id: "jemalloc-options",
    severity: Severity::Note,
    looks_for: "options of jemalloc in force (MALLOC_CONF, /etc/malloc.conf, the program's malloc_conf) that \
                would do something else on vcmalloc's libjemalloc.so.2, or have no effect on it",
    test: Test::Each(every, test),
    why: "vcmalloc's library obeys jemalloc's options as far as its heap has such a thing. An option without \
     effect is also reported once on stderr at start.",
    source: Source { name: "docs/reference/jemalloc.md, Options", url: "docs/reference/jemalloc.md#options" },
};

fn test(daemon: &Daemon, _: &Survey) -> Verdict {
    let sources = daemon.settings.iter().filter(|set| jemalloc::is_source(&set.name));
    let sources: Vec<(&str, &str)> = sources.map(|set| (set.name.as_str(), set.value.as_str())).collect();
    let answer = &daemon.allocator;
    let is_ours = answer.kind() == Some(Kind::JemallocStandIn) && answer.private_copy.is_none();
    let has_one = is_ours || answer.private_copy.is_some() || answer.kind() == Some(Kind::Jemalloc);
    let changes = jemalloc::changes(&sources, is_ours);
    if !has_one {
        return Verdict::Fine;
    }
    if changes.is_empty() {
        let is_known = daemon.environment.is_some() || daemon.process.was_privileged();
        return if is_known { Verdict::Fine } else { Verdict::NotSeen("its environment".into()) };
    }
    let changes = changes.join("; ");
    if is_ours {
        let mend = "# remove them where they are set, or set the option of vcmalloc that is named";
        return Verdict::found(changes, &[mend.into()]);
    }
    let whose = match (&answer.serving, answer.private_copy) {
        (_, Some(symbol)) => format!("the program's own copy of jemalloc ({symbol})"),
        (Some(serving), None) => {
            let version = serving.version.as_deref().unwrap_or("of unknown version");
            format!("jemalloc {version} ({})", serving.object.shown())
        }
        (None, None) => "jemalloc".into(),
    };
    let what = format!("{whose} serves it; on vcmalloc's libjemalloc.so.2: {changes}");
    if jemalloc::is_built_in(answer) {
        let mend = "# a preload does not replace this copy; a build that is linked with libjemalloc.so.2 can be \
                    started on vcmalloc's";
        return Verdict::found(what, &[mend.into()]);
    }
    let mut mend = vec!["# to start it on vcmalloc's libjemalloc.so.2:".into()];
    mend.extend(daemon.enabling());
    Verdict::found(what, &mend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::doctor::fake::{Fake, JEMALLOC, JEMALLOC_STAND_IN};

    const CONF: (&str, &str) = ("MALLOC_CONF", "dirty_decay_ms:5000,narenas:2,prof:true");

    fn redis(environment: &[(&str, &str)]) -> Fake {
        let fake = Fake::new();
        let redis = fake.process(103, "/usr/bin/redis-server", "linked-jemalloc");
        redis.load(JEMALLOC, "jemalloc").environment(environment);
        fake
    }

    #[test]
    fn options_that_would_change_are_told_with_what_they_become() {
        let what = redis(&[CONF]).finding(&CHECK);
        for words in [
            "jemalloc 5.3.0 (/usr/lib/libjemalloc.so.2) serves it",
            "dirty_decay_ms:5000 (MALLOC_CONF) becomes release_delay",
            "narenas:2 (MALLOC_CONF) has no effect: one heap",
        ] {
            assert!(what.contains(words), "{words}\n{what}");
        }
        assert!(!what.contains("prof:true"), "{what}");
    }

    #[test]
    fn the_variable_wins_over_the_link_in_etc() {
        let fake = redis(&[("MALLOC_CONF", "narenas:1")]);
        fake.link("narenas:9,tcache:false", "/etc/malloc.conf");
        let what = fake.finding(&CHECK);
        assert!(what.contains("tcache:false (malloc.conf)") && !what.contains("narenas"), "{what}");
    }

    #[test]
    fn on_our_library_only_options_without_effect_are_told() {
        let fake = Fake::new();
        let redis = fake.process(103, "/usr/bin/redis-server", "linked-jemalloc");
        redis.load(JEMALLOC_STAND_IN, "jemalloc-stand-in");
        redis.environment(&[("LD_PRELOAD", JEMALLOC_STAND_IN), CONF]);
        let what = fake.finding(&CHECK);
        assert!(what.starts_with("narenas:2 (MALLOC_CONF) has no effect"), "{what}");
        assert!(!what.contains("dirty_decay_ms"), "{what}");
    }

    #[test]
    fn a_lost_environment_is_told() {
        let fake = redis(&[CONF]);
        fake.write("/proc/103/environ", "");
        let not_seen = fake.not_seen(&CHECK);
        assert!(not_seen[0].ends_with("jemalloc-options: its environment"), "{not_seen:?}");
    }

    #[test]
    fn without_jemalloc_or_without_options_that_change_it_is_fine() {
        redis(&[("MALLOC_CONF", "prof:true,retain:true")]).assert_fine(&CHECK);
        redis(&[("PATH", "/usr/bin")]).assert_fine(&CHECK);
        let fake = Fake::new();
        fake.plain_osd().environment(&[CONF]);
        fake.assert_fine(&CHECK);
    }
}
