# Two doors: `make check` while working, `make test` before landing. The latter is exactly what CI runs.

FOR ?= 60
PREFIX ?= /usr/local
ROWS ?=
RUNS ?= $(if $(QUICK),3,5)
AT ?= $(if $(QUICK),50,75$(comma)50$(comma)33)
comma := ,

# The machine that packages are for: x86_64 or aarch64.
ARCH ?= $(shell uname -m)
PACKAGES = $${CARGO_TARGET_DIR:-target}/packages
STATIC = $(PACKAGES)/$(ARCH)/neap

.PHONY: help build install check test demo torture torture-jobs dst failing miri bench bench-micro lab lint fmt clean \
	static packages tarball deb wheel image packages-test recipes-test

help:
	@echo 'make build    the release binary, target/release/neap: one file'
	@echo 'make install  it, into PREFIX/bin (/usr/local), with manual pages and completions'
	@echo 'make demo     a real program over its memory limit, plainly and under neap'
	@echo 'make packages a static neap as tarball, .deb, wheel and OCI image, into target/packages; each has a target of its own:'
	@echo '              static, tarball, deb, wheel, image; ARCH=aarch64 with gcc-aarch64-linux-gnu'
	@echo 'make packages-test  installs and uses each in a clean root'
	@echo 'make recipes-test   runs each line of docs/guide/recipes.md, with packages from pip in target/recipes-venv'
	@echo 'make check    lints, links of the documentation, unit tests: what to run while working'
	@echo 'make test     all that, other compilers, and end-to-end tests, with counts; what CI runs'
	@echo 'make torture  the torture program under neap with fresh seeds; FOR=600 is the long run (60)'
	@echo 'make torture-jobs  the same in eight jobs of a service that are steered, frozen and killed; FOR=600 is the long run (60)'
	@echo 'make dst      random programs and the engine on an imagined kernel, with fresh seeds; FOR=3600 is the long run (60)'
	@echo 'make failing  each system call of neap fails, with each error, at several places; some twenty minutes'
	@echo 'make miri     Miri on page records, lists and the pool, where a nightly toolchain has it; a few minutes'
	@echo 'make bench    the suite against the kernel, as root, into benches/runs; QUICK=1 is short, ROWS="zipf seq-read" a choice'
	@echo 'make bench-micro  the fault path, the eviction path, the pool and each compressor'
	@echo 'make lab      real kernels of Debian in an emulated machine (qemu), for neap sim experiment all --against target/lab/lab.json;'
	@echo '              hours with all of them: KERNELS=6.12 ONLY="lab-fairness:1 lab-zswap" LAB_RUNS=1 are a choice'
	@echo 'make lint     formatting, clippy and links alone'

build:
	@tools/need.sh build
	cargo build --release -p neap-cli

install: build
	@packaging/stage.sh $${CARGO_TARGET_DIR:-target}/release/neap '$(DESTDIR)$(PREFIX)'

static:
	@packaging/static.sh $(ARCH)

# What says itself what it can do: the static neap, or where that is for another machine the usual one.
NATIVE = $(if $(filter $(ARCH),$(shell uname -m)),,NEAP_NATIVE=$(abspath $(or $(CARGO_TARGET_DIR),target))/release/neap)
packages tarball deb wheel image: static $(if $(filter $(ARCH),$(shell uname -m)),,build)

packages: tarball deb wheel image

tarball:
	@$(NATIVE) packaging/tarball.sh $(STATIC) $(PACKAGES)

deb:
	@$(NATIVE) packaging/deb.sh $(STATIC) $(PACKAGES)

wheel:
	@$(NATIVE) packaging/wheel.py $(STATIC) $(PACKAGES)

image:
	@$(NATIVE) packaging/image.py $(PACKAGES) $(STATIC)

packages-test:
	@packaging/test/all.sh

recipes-test: build
	@tools/recipes.sh

check:
	@tools/check.sh

test:
	@tools/test.sh

demo: build
	@tools/demo.sh

torture: build
	NEAP_TORTURE_SECONDS=$(FOR) cargo test -p neap-tests --test torture -- --nocapture --test-threads=1

torture-jobs: build
	NEAP_TORTURE_SECONDS=$(FOR) cargo test -p neap-tests --test torture_jobs -- --nocapture --test-threads=1

dst:
	NEAP_DST_SECONDS=$(FOR) cargo test -p neap-engine --lib dst::no_byte -- --nocapture

failing: build
	NEAP_FAILING=all cargo test -p neap-tests --test failing_calls -- --nocapture --test-threads=1

miri:
	@tools/miri.sh

bench:
	@tools/need.sh build
	cargo build --release -p neap-cli -p neap-suite
	$${CARGO_TARGET_DIR:-target}/release/neap-suite run --rows '$(ROWS)' --at $(AT) --runs $(RUNS)

bench-micro: build
	cargo build --release -p neap-suite
	cargo bench -p neap-micro

lab:
	@command -v python3 >/dev/null || { echo 'make lab: missing: python3; try: apt-get install python3'; exit 1; }
	@python3 tools/lab/lab.py --folder $${CARGO_TARGET_DIR:-target}/lab $(if $(KERNELS),--kernels $(KERNELS)) \
		$(if $(ONLY),--only $(ONLY)) $(if $(LAB_RUNS),--runs $(LAB_RUNS))

lint:
	@tools/lint.sh

fmt:
	cargo fmt --all

clean:
	cargo clean
