# What a person types. Each target is one script; the scripts say what they do and ask nothing.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help up down build install package check test bench clean

help:
	@echo 'make up      install what is missing, build, mount a file system at ./mnt (DATA=dir MOUNT=dir to choose)'
	@echo 'make down    stop it'
	@echo 'make build   build the loligo command (optimised)'
	@echo 'make install   as root: the command, mount -t loligo, the unit for systemd; see docs/deploy.md'
	@echo 'make package   .deb, .rpm, tarball and image in target/package; see docs/deploy.md'
	@echo 'make check   formatting, clippy and the rules of the project'
	@echo 'make test    install what is missing and run all tests'
	@echo 'make bench   measure; see docs/performance.md (ARGS="-n 1000 --only loligo-disk" to choose; ARGS=-h says what)'
	@echo 'make clean   remove what was built here (the caches outside the checkout stay)'

up:
	@bash scripts/up.sh

down:
	@bash scripts/up.sh down

build:
	@bash scripts/build.sh

install:
	@bash scripts/install.sh

package:
	@bash scripts/package.sh

check:
	@bash scripts/check.sh

test:
	@bash scripts/test.sh

bench:
	@bash scripts/bench.sh $(ARGS)

clean:
	@bash scripts/clean.sh
