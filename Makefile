# The one door. `make test` is exactly what CI runs.

FOR ?= 60

.PHONY: help build test demo torture lint fmt clean

help:
	@echo 'make build    the release binary and its preload library, in target/release'
	@echo 'make demo     a real program over its memory limit, plainly and under neap'
	@echo 'make test     lints, unit tests and end-to-end tests, with counts'
	@echo 'make torture  the torture program under neap with fresh seeds; FOR=600 is the long run (60)'
	@echo 'make lint     formatting and clippy alone'

build:
	@tools/need.sh build
	cargo build --release -p neap-cli -p neap-preload

test:
	@tools/test.sh

demo: build
	@tools/demo.sh

torture: build
	NEAP_TORTURE_SECONDS=$(FOR) cargo test -p neap-tests --test torture -- --nocapture --test-threads=1

lint:
	@tools/lint.sh

fmt:
	cargo fmt --all

clean:
	cargo clean
