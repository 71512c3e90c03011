# The project's entry points. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help setup demo test fresh packages soak bench bench-wire bench-lab rivals install-c install-fi install-corba install-vipl kek docs lint fuzz miri clean

CARGO := scripts/cargo.sh
# Where cargo builds, and where our own results go.
TARGET := $(or $(CARGO_TARGET_DIR),target)
BENCH := $(CARGO) run --quiet --release -p barewire-cli --bin barewire -- bench all

help: ## list what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What each needs first: scripts/setup.sh looks, and as root on Debian or Ubuntu installs.
setup: setup-test ## check the toolchain; as root on Debian or Ubuntu install what tests need
setup-%:
	@scripts/setup.sh $*

demo: setup-demo ## measure unmodified programs and the network, quickly, and draw a page
	@scripts/demo.sh

test: setup-test ## every check: format, lints, tidy, tests, model checking, docs
	@scripts/test.sh

fresh: ## as root: make demo and make test on a new minimal Debian (FRESH_SUITE=trixie, FRESH_STEPS=quick)
	@scripts/fresh.sh

packages: setup-build ## packages for Debian and Ubuntu, a wheel, and a tarball: target/packages
	@scripts/packages.sh

soak: setup-test ## an hour of mixed traffic of unmodified programs (SOAK_SECONDS=3600, SOAK_SEED)
	$(CARGO) build --release -p barewire-sockets
	SOAK_SECONDS=$(or $(SOAK_SECONDS),3600) BAREWIRE_PROGRAMS_MODES=preloaded \
	BAREWIRE_PRELOAD_LIB=$(abspath $(TARGET))/release/libbarewire_sockets.so \
	$(CARGO) test -p barewire-programs --test soak -- --nocapture

bench: setup-build ## the full measurements, as json, csv and a page
	@mkdir -p $(TARGET)/bench
	$(BENCH) --json $(TARGET)/bench/results.json --csv $(TARGET)/bench/results.csv --html $(TARGET)/bench/index.html
	@echo
	@echo "The page: $(abspath $(TARGET))/bench/index.html"

bench-wire: setup-build ## speeds of the formats and cores, beside memcpy
	$(CARGO) run --quiet --release -p barewire-benches -- wire

bench-lab: setup-build ## events per second of the event kernel, beside SimPy and nexosim
	@scripts/bench-lab.sh

rivals: setup-build ## programs that use iceoryx2, Aeron and Open MPI, for `barewire bench --rivals`
	@scripts/rivals.sh

install-c: setup-build ## the libraries and headers for C and C++ (PREFIX=/usr/local, DESTDIR)
	@PREFIX="$(or $(PREFIX),/usr/local)" DESTDIR="$(DESTDIR)" scripts/install-c.sh

install-fi: setup-build ## the provider for libfabric, and so for MPI (PREFIX=/usr/local, DESTDIR)
	@PREFIX="$(or $(PREFIX),/usr/local)" DESTDIR="$(DESTDIR)" scripts/install-fi.sh

install-corba: setup-build ## the transport for omniORB, and so for CORBA (PREFIX=/usr/local, DESTDIR)
	@PREFIX="$(or $(PREFIX),/usr/local)" DESTDIR="$(DESTDIR)" scripts/install-corba.sh

install-vipl: setup-build ## the VI Provider Library (PREFIX=/usr/local, DESTDIR)
	@PREFIX="$(or $(PREFIX),/usr/local)" DESTDIR="$(DESTDIR)" scripts/install-vipl.sh

kek: setup-build ## as root: kernel shaping and event building through an emulated switch (KEK="--full")
	$(CARGO) run --quiet --release -p barewire-cli --bin barewire -- kek --page docs/studies/event-builder.md $(KEK)

docs: setup-build ## the book, and the reference of every crate
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --features barewire/tokio --no-deps
	@test -f "$(TARGET)/doc/barewire/struct.Node.html" || { echo "the pages of crate barewire are missing"; exit 1; }
	@echo "The reference: $(abspath $(TARGET))/doc/barewire/index.html"
	@scripts/book.sh build

lint: setup-lint ## only the fast checks: format, lints, tidy, book (and licences, with cargo-deny)
	@scripts/test.sh format clippy tidy book
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check licenses; \
	else echo "licences not checked: cargo-deny is not installed"; fi

fuzz: setup-build ## fuzz every target for a minute (FUZZ_SECONDS=60)
	@scripts/fuzz.sh $(or $(FUZZ_SECONDS),60)

miri: ## interpret tests of shared memory and formats, which finds undefined behaviour (needs nightly's miri)
	@scripts/miri.sh || [ $$? = 77 ]

clean: ## remove everything that was built
	$(CARGO) clean
