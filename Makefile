# The few commands a person needs. Everything is built by Meson into build/ (other variants: build-asan, build-tsan).
TANDEM := build/src/cmd/tandem
JOBS   := $(shell nproc)

help:
	@echo "make up       install what is missing, build, start everything on this machine"
	@echo "make down     stop it (make down ARGS=--purge removes its state too)"
	@echo "make check    the inner loop, a few minutes: unit tests, and the most telling system tests"
	@echo "make test     builds and tests Tandem: unit tests, and all system tests but the slow and nightly ones, those on a real Kubernetes and those for the build with sanitizers"
	@echo "make ci       make test and all else but the nightly ones (.ci/run): thread sanitizer, model, a real Kubernetes, faults, random runs"
	@echo "make unit     unit tests only: ASan+UBSan, then TSan"
	@echo "make nightly  the long system tests of what is settled, which make ci leaves out"
	@echo "make bench    benchmarks (numbers and ratios, never pass or fail)"
	@echo "make lint     formatting, include direction, clang-tidy"
	@echo "make model    the ask protocol in every order of its steps (spin)"
	@echo "make fuzz     each fuzz target for FUZZ_SECONDS (default 30); ARGS=\"json ws\" only these"
	@echo "make generate CRDs, reference, manifests and chart from their sources"
	@echo "make install  install into DESTDIR (default /usr/local)"

up: build
	$(TANDEM) up $(ARGS)

down:
	$(TANDEM) down $(ARGS)

setup:
	@tools/setup --for build --for run

# Without the unit tests, which are two fifths of what there is to compile, and run with sanitizers.
build: setup
	@[ -f build/build.ninja ] || meson setup build -Dbuildtype=release -Db_ndebug=false -Dtests=false >/dev/null
	@ninja -C build --quiet

# -O1 and -g1 (lines, which is what a report shows): compiling with sanitizers takes two thirds of the time that it takes
# with -O2, and the tests take as long.
build-asan: setup
	@[ -f build-asan/build.ninja ] || meson setup build-asan -Dbuildtype=debugoptimized -Doptimization=1 -Dc_args=-g1 -Db_sanitize=address,undefined -Dfaults=true >/dev/null
	@ninja -C build-asan --quiet

build-tsan: setup
	@[ -f build-tsan/build.ninja ] || meson setup build-tsan -Dbuildtype=debugoptimized -Doptimization=1 -Dc_args=-g1 -Db_sanitize=thread >/dev/null
	@ninja -C build-tsan --quiet meson-test-prereq # what the unit tests need, and no more

test-setup:
	@tools/setup --for build --for run --for test

check: test-setup build build-asan
	@tools/run-tests check

test: test-setup build build-asan
	@tools/run-tests test

ci:
	@.ci/run

ci-rest: test-setup build build-asan # what make ci does after make test; it builds build-tsan itself, beside the rest
	@tools/run-tests rest

unit: test-setup build-asan
	@tools/run-tests unit

nightly: test-setup build
	@tools/run-tests nightly

bench: build
	@tools/run-bench

lint:
	@tools/setup --for build --for test --for lint
	@tools/lint

model:
	@tools/setup --for test
	@docs/model/check

fuzz:
	@tools/setup --for build --for test --for fuzz
	@tools/run-fuzz $(ARGS)

generate: build
	@tools/setup --for test
	@tools/generate

install: build
	@meson install -C build $(if $(DESTDIR),--destdir $(DESTDIR))

.PHONY: help up down setup build build-asan build-tsan test-setup check test ci ci-rest nightly unit bench lint model fuzz generate install
