# The front door. Every target sets up what it needs on a fresh Debian machine and says what it installs.

SHELL := /bin/bash
CARGO ?= cargo
TARGET = $(or $(CARGO_TARGET_DIR),target)
# scripts/setup links a versioned compiler of Ubuntu's to the first place; rustup puts cargo into the last, and a fresh shell may
# not have it on its path yet.
export PATH := $(abspath $(TARGET))/rust/bin:$(PATH):$(HOME)/.cargo/bin
# A library that replaces malloc cannot be its own test harness; tests/ runs these as programs do.
LIBRARIES = vcmalloc-shared vcmalloc-static vcmalloc-hardened vcmalloc-hardened-static vcmalloc-tcmalloc vcmalloc-jemalloc vcm-interposer

.DEFAULT_GOAL := help
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INSTALL = BUILT=$(TARGET)/release PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' packaging/install
# gperftools' names: programs are linked with one or the other.
STAND_INS = $(patsubst %,libtcmalloc%.so.4,_minimal _and_profiler _debug _minimal_debug) libtcmalloc.so.4
# The dynamic loader finds a new library in /usr/local/lib by its cache alone. A package does this by itself.
RENEW_LOADER_CACHE = @if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then PATH="$$PATH:/usr/sbin:/sbin" ldconfig; fi

.PHONY: help build lab libraries install uninstall deb deb-test rpm crate linking-test demo test bench many-cores model results labs-test fresh-test citizens enabled-daemons detection coexistence looking ceph-turns lint deny doc site release-check loom golden soak fuzz breaks mutants races aarch64 kernels many-cpus clean setup-build setup-test setup-demo setup-citizens setup-deb setup-deb-test setup-rpm setup-linking-test setup-fresh

help: ## this list
	@echo "vcmalloc: a memory allocator whose caches belong to virtual CPUs, not to threads"
	@echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Each sets up what it needs (scripts/setup) and says what it installs. To use what was built:"
	@echo "  $(TARGET)/release/vcm run -- COMMAND      or      LD_PRELOAD=$(TARGET)/release/libvcmalloc.so COMMAND"

# One package a call: built together, the library would get the features that the tool's needs turn on.
build: libraries ## libvcmalloc.so, .a, -hardened.so, -hardened.a, libtcmalloc*.so.4, libjemalloc.so.2 and the tool vcm, in target/release
	$(CARGO) build --release -p vcm
	@ls -l $(TARGET)/release/libvcmalloc.so $(TARGET)/release/libvcmalloc-hardened.so \
	    $(TARGET)/release/libvcmalloc.a $(STAND_INS:%=$(TARGET)/release/%) $(TARGET)/release/libjemalloc.so.2 $(TARGET)/release/vcm

# Labs ship beside vcm and not in it: apt, mounts and clusters are no business of a host that serves.
lab: setup-build ## the labs' own program vcm-lab, in target/release; 'vcm lab' starts it
	$(CARGO) build --release -p vcm-labs --bin vcm-lab

libraries: setup-build
	$(CARGO) build --release -p vcmalloc-shared -p vcmalloc-static
	$(CARGO) build --release -p vcmalloc-hardened -p vcmalloc-hardened-static
	@for kind in so a; do ln -f $(TARGET)/release/libvcmalloc_hardened.$$kind $(TARGET)/release/libvcmalloc-hardened.$$kind; done
	@scripts/archive $(TARGET)/release/libvcmalloc{,-hardened}.a
	@for name in libvcmalloc libvcmalloc-hardened; do ln -sf $$name.so $(TARGET)/release/$$name.so.0; done
	$(CARGO) build --release -p vcmalloc-tcmalloc
	@scripts/stand-ins $(TARGET)/release
	$(CARGO) build --release -p vcmalloc-jemalloc
	@cp -f $(TARGET)/release/libjemalloc.so $(TARGET)/release/.libjemalloc.so.2 && mv -f $(TARGET)/release/{.libjemalloc.so.2,libjemalloc.so.2}
	$(CARGO) build --release -p vcm-interposer

# As root, after 'make build'. packaging/install says what goes where.
install: ## vcm, vcm-lab where it was built, the libraries and what links them into PREFIX (/usr/local), LIBDIR (PREFIX/lib); DESTDIR is put before
	@$(INSTALL)
	$(RENEW_LOADER_CACHE)

uninstall: ## take away what 'make install' has put there, with the same PREFIX, LIBDIR and DESTDIR
	@$(INSTALL) --remove
	$(RENEW_LOADER_CACHE)

# The installed library comes first, as in the README: programs of this machine run on it. Without it the library is built.
PACKAGED = $(firstword $(wildcard /usr/lib/$(shell uname -m)-linux-gnu/libvcmalloc.so.0 /usr/lib64/libvcmalloc.so.0))
# The runner is built without optimising: it waits for db_bench, and optimised it takes a minute more to build.
demo: setup-demo ## RocksDB's db_bench on glibc, jemalloc, TCMalloc, mimalloc and vcmalloc, side by side: some four minutes
	$(if $(PACKAGED),@echo "on the installed $(PACKAGED); 'make demo PACKAGED=' for the one that is built here")
	$(if $(PACKAGED),,@echo "[1/3] building the library: some 30 s of two CPUs"; $(CARGO) build --release --quiet -p vcmalloc-shared)
	@echo "[2/3] building the program that runs the demonstration: a minute and a half of two CPUs"
	@$(CARGO) build --quiet -p vcmalloc-bench --bin vcm-bench
	@echo "[3/3] db_bench, twice on each allocator: a minute and a half"
	@$(TARGET)/debug/vcm-bench --library $(or $(PACKAGED),$(abspath $(TARGET))/release/libvcmalloc.so) demo \
	    --html $(abspath $(TARGET))/demo.html

# The libraries are built first: the programs in tests/ run on target/release/libvcmalloc.so. The tool that they ask is the one
# that cargo test builds: a release of it is three minutes of two CPUs, and `make demo` and `make deb` build one.
test: setup-test lint libraries loom races ## everything the project promises: style, unit tests, C programs, real programs
	@rm -f $(TARGET)/not-tested
	VCMALLOC_SKIPPED=$(abspath $(TARGET))/not-tested VCMALLOC_TEST_TOOL=$(abspath $(TARGET))/debug/vcm \
		$(CARGO) test --workspace $(LIBRARIES:%=--exclude %) --no-fail-fast
	@if [ -e $(TARGET)/not-tested ]; then echo "Passed, but not tested on this machine:"; sort -u $(TARGET)/not-tested | sed 's/^/  /'; fi

# As root; some fifty minutes. SUITES="bookworm" for one Debian, WHAT="demo" for one command. Fresh roots are kept for the next run.
fresh-test: setup-fresh ## both commands in fresh Debians 12 and 13, as a user without Rust, and what they left there
	scripts/fresh-test

bench: setup-demo build ## every pattern against every allocator, and costs against size: tables and pictures
	$(CARGO) run --release -p vcmalloc-bench --bin vcm-bench -- peers
	$(CARGO) run --release -p vcmalloc-bench --bin vcm-bench -- run
	$(CARGO) run --release -p vcmalloc-bench --bin vcm-bench -- sizes

# Its programs can be carried to a machine with more cores and without a network: scripts/many-cores names them.
many-cores: setup-demo build ## throughput against cores, six patterns on every allocator: tables and picture
	$(CARGO) run --release -p vcmalloc-bench --bin vcm-bench -- peers
	scripts/many-cores

# Patterns that were recorded, and what was counted, are kept in target/model: `make model AGAIN=1` counts again. TRACES is a folder
# of daemons' traces (.art.zst), if there is one.
CPUS ?= 2,8,32,64,128,256
model: setup-demo build ## what locks would let many CPUs do: counted with the slabs of N CPUs, by the operational laws
	$(CARGO) build --release -p vcmalloc-bench --bin vcm-load
	$(CARGO) build --release -p vcm-model -p vcm-interposer
	$(if $(AGAIN),rm -f $(TARGET)/model/*.json)
	$(TARGET)/release/vcm-model page $(TARGET)/release $(TARGET)/model results/model.md $(CPUS) $(or $(TRACES),$(TARGET)/traces)

# ONLY="memory-idle soak" runs some steps.
results: setup-build ## all that the pages of results need, in order; LIST=1 prints the plan with its times
	@scripts/results $(if $(LIST),--list) $(ONLY)

# Not a part of `make test`: it takes minutes and installs daemons. Ends with 3 if the controls were not seen.
labs-test: build lab ## a real Gluster cluster on glibc and vcmalloc, quick; as root
	$(TARGET)/release/vcm lab gluster detach --quick --allocators glibc,vcmalloc

# Not a part of `make test`: it installs daemons and a browser, and takes some ten minutes. As root.
citizens: build setup-citizens ## programs that shut themselves in, and Python's tests of processes, on glibc and both libraries
	scripts/citizens

# Not a part of `make test`: two roots of Debian are fetched, some 350 MB each, and booted in namespaces. As root.
enabled-daemons: build ## ten daemons each of a fresh Debian 12 and 13, switched by 'vcm enable'; results/enabled-daemons.md
	scripts/enabled-daemons bookworm trixie
	scripts/enabled-daemons --page

# Not a part of `make test`: the suites are fetched by git.
detection: build ## 155 kinds of misuse from three public suites: which allocators stop them
	scripts/detection $(TARGET)/detection

# As root. SYSTEM=FOLDER: a Debian 11 to try too; PROGRAMS=FOLDER: programs that were built for it.
coexistence: build ## other libraries that register threads, or bring an allocator, beside ours
	scripts/coexistence $(or $(PROGRAMS),google) $(SYSTEM)

# As root: the labs install daemons. DAEMON=gluster for the brick process.
looking: build lab ## what it costs a real OSD to be looked at ten times a second; 40 minutes under load
	scripts/looking $(or $(DAEMON),ceph)

# As root.
ceph-turns: build ## 'vcm compare --systemd' on a real Ceph under a real systemd; the report in target/ceph-turns
	scripts/ceph-turns $(TARGET)/ceph-turns

deb: setup-deb ## Debian packages, sums and bill of materials, in target/packages
	packaging/deb

# As root. SUITES="bookworm trixie" for these Debians, BUILDS=0 without the two builds, each some four minutes of a CPU.
deb-test: setup-deb-test ## build them twice and compare; lintian; install, use, upgrade and purge them in fresh Debians
	packaging/test-deb

rpm: setup-rpm ## the same as RPMs; unpacked and used here
	packaging/rpm --test

# None is published yet: cargo packages the three together and builds each from its package. Half a minute.
crate: setup-build ## the crate vcmalloc for programs in Rust, as it would be published, in target/package
	$(CARGO) package -p vcmalloc-version -p vcmalloc-core -p vcmalloc

# Ten seconds.
linking-test: build setup-linking-test ## programs linked by cc, pkg-config, CMake and Meson with what 'make install' lays out
	packaging/linking/run

lint: setup-build ## formatting, clippy, deny where it is installed; warnings are errors with the compiler of rust-toolchain.toml; ages of figures
	@scripts/lint

# cargo-deny is built once, below target/tools: some five minutes of two CPUs. ADVISORY_DB=FOLDER is a clone of the database.
deny: setup-build ## licences, sources, duplicates and advisories of all dependencies, by deny.toml
	@command -v cargo-deny >/dev/null || [ -x $(TARGET)/tools/bin/cargo-deny ] || \
		$(CARGO) install --quiet --locked --root $(abspath $(TARGET))/tools cargo-deny --version 0.20.2
	@scripts/deny

doc: setup-build ## the documentation of all crates for those who work on them, in target/doc; a warning is an error
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace $(LIBRARIES:%=--exclude %) --no-deps --document-private-items

site: setup-build ## README, docs and results as a web site, in target/site/html; builds mdBook once
	@scripts/site

# ONLY="versions changelog" for some of its parts; scripts/release-check --list names them.
release-check: setup-build ## what a machine can check of a release: versions, changelog, tag, ages of figures, deny, crates, links, size
	@scripts/release-check $(ONLY)

# A directory of its own, because the flag rebuilds everything.
loom: setup-build ## locks, bell, transfer array and the like in every interleaving, with the memory orders they ask for
	RUSTFLAGS="--cfg loom" CARGO_PROFILE_RELEASE_LTO=off CARGO_TARGET_DIR=$(TARGET)/loom $(CARGO) test --release -p vcmalloc-core --lib loom_

golden: build ## renew tests/golden after a reviewed change of the library's symbols
	RENEW_GOLDEN=1 $(CARGO) test -p vcmalloc-tests --test symbols
	RENEW_GOLDEN=1 $(CARGO) test -p vcmalloc-tests --test tcmalloc -- exports_are_those_reviewed
	RENEW_GOLDEN=1 $(CARGO) test -p vcmalloc-tests --test jemalloc -- exports_are_those_reviewed

# MINUTES=2 for a short one.
soak: build ## everything at once for an hour, with what stays in memory after each round
	$(CC) -O1 -g -Wall -Wextra -fno-builtin -pthread -rdynamic -D_GNU_SOURCE tests/robustness/soak.c -o $(TARGET)/soak
	$(CC) -O1 -shared -fPIC tests/robustness/plugin.c -o $(TARGET)/soak-plugin.so
	SOAK_PLUGIN=$(abspath $(TARGET)/soak-plugin.so) LD_PRELOAD=$(abspath $(TARGET)/release/libvcmalloc.so) \
		$(TARGET)/soak $(or $(MINUTES),60)

# It needs no nightly: RUSTC_BOOTSTRAP for its own build, and gcc's runtime. Most of its half a minute compiles the core once more.
races: setup-build ## the core as a heap of one process under gcc's Thread Sanitizer
	fuzz/races/run $(ROUNDS)

# Without a sanitizer the stable compiler will do. Corpora that grew: cargo fuzz cmin -s none TARGET.
fuzz: setup-build ## each fuzz target: its corpus, then a minute of new inputs; needs cargo install cargo-fuzz
	SECONDS_EACH=$(SECONDS_EACH) PARSERS_EACH=$(PARSERS_EACH) JOBS=$(JOBS) CARGO="$(CARGO)" scripts/fuzz

# Not a part of `make test`, which only looks whether the breaks still fit. NAME=fence for those with that word in their name.
breaks: setup-build ## break the code on purpose: which break does its test not notice
	$(CARGO) run -p vcmalloc-tests --example breaks -- $(NAME)

# 4,378 changes, some 6 hours on two quiet CPUs; SHARD=0/5 for a fifth, some 65 minutes. The tests named here are those of the
# changed layers, of the one above, and the quick ones that ask from the heap; their misses may still be seen by `cargo test
# -p vcmalloc-core`. Optimising would cost more than these take.
mutants: setup-build ## change the core's middle and back line by line: which change does no test see; needs cargo-mutants
	@mkdir -p $(TARGET)
	CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) mutants -p vcmalloc-core -o $(TARGET)/mutants -j2 \
		$(if $(SHARD),--shard $(SHARD) --sharding round-robin) -- --lib -- class:: pages:: central:: large:: \
		upkeep:: heap::tests::janitor heap::tests::retain heap::tests::shed heap::tests::pressure heap::tests::room_for

# The locked caches: qemu-user has no restartable sequences. Not a part of `make test`: qemu takes its time.
aarch64: ## the libraries for aarch64: C programs, misuse, guards and real programs on them under qemu
	scripts/aarch64

# Not a part of `make test` either: emulated machines take minutes.
kernels: ## kernels of Debian under qemu, x86-64 and arm64: programs on both fronts, to results/kernels.md
	scripts/kernels

# PEERS=FOLDER, LIBRARY=FILE and ONLY=NAME are handed on; the allocators that `make bench` builds are taken where they are, else Debian's.
many-cpus: ## machines of 16 to 256 CPUs and of several nodes of memory under qemu: storms, and where blocks lie, to results/many-cpus.md
	@scripts/setup peers
	MACHINES=many-cpus scripts/kernels

clean: ## remove everything that was built
	$(CARGO) clean

setup-build:
	@scripts/setup build

setup-test setup-demo setup-citizens setup-deb setup-deb-test setup-rpm setup-linking-test: setup-%:
	@scripts/setup build $*

setup-fresh:
	@scripts/setup fresh
