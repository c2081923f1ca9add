# Everything that one does with this tree. Each target does its own set-up and may be repeated.
#
#   make demo         a lab of hosts, an edge and a tester in network namespaces: pings, TCP, traceroute, measured rate
#   make test         every test of every layer
#   make check        format, lints, licences and advisories; a line for each
#   make bench        the engine alone, then a node over shared-memory ports, then new documents under load
#   make bench-peers  the same work on Open vSwitch with DPDK, testpmd and Linux, side by side
#   make lab-up       the demo's lab, to look around in; make lab-down removes it
#   make fuzz         every fuzz target for FUZZ_SECONDS (60) each
#   make clean        removes what was built and any lab that is up

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
TARGET := $(CURDIR)/target
SLUICE := $(TARGET)/release/sluice
VENV := $(TARGET)/venv
FUZZ_SECONDS ?= 60
SETUP := ./scripts/setup

.PHONY: help setup setup-bench build test check demo bench bench-peers lab-up lab-down fuzz clean

help:
	@sed -n 's/^#   make/  make/p' Makefile

setup:
	@$(SETUP)

setup-bench:
	@$(SETUP) bench

# Reports of the bench name the commit that they are of.
build: export SLUICE_COMMIT := $(shell git describe --always --dirty --abbrev=12 2>/dev/null)
build: setup
	cargo build --release --workspace --bins

test: setup
	@./scripts/test

check: setup
	@cargo fmt --all --check && echo "format: ok"
	@cargo clippy --workspace --all-targets --all-features -- -D warnings && echo "lints: ok"
	@./scripts/check-dependencies

demo: build
	@$(SLUICE) lab demo

bench: build
	@mkdir -p target/bench
	cargo bench -p sluice-datapath --bench engine
	@$(SLUICE) bench forward
	@$(SLUICE) bench bme-1 --html target/bench/bme-1.html --output target/bench/bme-1.json
	@$(SLUICE) bench reload

bench-peers: setup-bench build
	@mkdir -p target/bench
	@$(SLUICE) bench peers

lab-up: build
	@$(SLUICE) lab up --topology demo

lab-down:
	@if [ -x $(SLUICE) ]; then $(SLUICE) lab down --topology demo; fi

fuzz: setup
	@./scripts/fuzz $(FUZZ_SECONDS)

clean: lab-down
	cargo clean
