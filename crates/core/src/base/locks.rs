//! All locks, in the one order in which a thread may take them.
//!
//! A lock has its place here by its rank, which the type of what it guards says: a mutex without one does not compile.
//! Debug builds stop a thread that takes a lock out of order (`os/witness.rs`). A child process puts the locks right
//! from the last to the first (`Engine::repair`), and a lock that is not thought of there does not compile either.
//! docs/design/fork.md shows the list.

macro_rules! locks {
    ($($rank:ident: $name:literal, $held:literal;)*) => {
        /// A lock's rank: a thread that holds a lock waits only for those further down.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Rank {
            $(#[doc = $held] $rank,)*
        }

        impl Rank {
            pub const ALL: [Rank; [$(Rank::$rank),*].len()] = [$(Rank::$rank),*];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Rank::$rank => $name,)*
                }
            }

            /// While what it is held.
            pub const fn held(self) -> &'static str {
                match self {
                    $(Rank::$rank => $held,)*
                }
            }
        }
    };
}

locks! {
    Exporting: "exporting", "what the library around the heap does once for its process";
    Starting: "starting", "the first start";
    Relieving: "relieving", "memory is given back because a limit was passed; others wait for it with no lock in hand";
    Profile: "profile", "a look at the live profile, or a change of it";
    Guards: "guards", "a look at the guarded samples, or a change of them";
    Freezer: "freezer", "a slab is made, frozen or emptied";
    Slab: "slab", "a slab under a lock is used: nobody waits for that but who empties it";
    Transfer: "transfer array", "the transfer array of a class; never together with its spans";
    Tenant: "tenant", "the spans of one tenant's heap";
    Tenants: "tenants", "a tenant's heap is made or ends: which ones are unused";
    Spans: "spans", "the lists of spans of a class";
    Growing: "growing", "the heap grows, and the system is asked for that";
    Releasing: "releasing", "units are withheld from the free runs, so that a child knows that some are";
    State: "state", "free runs and descriptors";
}

/// The value that a mutex guards. If a crate has a lock that guards no value, a type without fields says its rank.
pub trait Ranked {
    const RANK: Rank;
}

macro_rules! guards_no_value {
    ($($lock:ident)*) => {
        $(
            #[doc = concat!("For the lock of rank `", stringify!($lock), "`.")]
            pub struct $lock;

            impl Ranked for $lock {
                const RANK: Rank = Rank::$lock;
            }
        )*
    };
}

guards_no_value! { Exporting Starting Relieving Freezer Slab Growing }

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/design/fork.md");

    #[test]
    fn the_page_on_fork_shows_the_list() {
        let line =
            |(index, rank): (usize, &Rank)| format!("{}. `{}`: {}\n", index + 1, rank.name(), rank.held());
        let list: String = Rank::ALL.iter().enumerate().map(line).collect();
        assert!(
            PAGE.contains(&format!("\n\n{list}\n")),
            "docs/design/fork.md does not show this order:\n{list}"
        );
    }

    #[test]
    fn the_page_on_fork_says_of_each_lock_how_it_is_put_right() {
        let rows = PAGE.lines().skip_while(|line| *line != "| lock | truth | derived anew |");
        let rows = rows.take_while(|line| line.starts_with('|'));
        let told: String = rows.filter_map(|row| row.split('|').nth(1)).collect();
        let untold: Vec<_> =
            Rank::ALL.iter().filter(|rank| !told.contains(&format!("`{}`", rank.name()))).collect();
        assert!(untold.is_empty(), "the table of docs/design/fork.md lacks {untold:?}");
    }
}
