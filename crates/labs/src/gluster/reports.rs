//! The reports that the Gluster experiments rerun.

use crate::engine::experiment::Report;

pub const MULTIPLEX: Report = Report {
    who: "Jeff Darcy, GlusterFS, on brick multiplexing",
    year: "2016",
    found: "Gluster's own memory pools multiplied threads by bricks by pools: they ran out of keys for thread data at \
            about 120 volumes, and with hundreds of bricks in a process the machine went into a swap storm. With \
            plain malloc and jemalloc in their place the same machine carried more than 220 volumes.",
    source: "",
};

pub const FIRST_RUN: Report = Report {
    who: "this project, by hand, before vcmalloc had a line of code",
    year: "2026",
    found: "glusterfs 10.3 on 2 cores: glibc, TCMalloc and mimalloc keep nearly all that 116 detached bricks have \
            freed, jemalloc two thirds of it. The live heap is 24 MiB by then.",
    source: "",
};

pub const POOLS_OFF: Report = Report {
    who: "the GlusterFS developers, on leaving TCMalloc in charge",
    year: "2021",
    found: "glusterfs 10 turns its own pools off where it is built with TCMalloc; the issue that proposed it reports \
            about 10 % over the pools.",
    source: "https://github.com/gluster/glusterfs/issues/338",
};
