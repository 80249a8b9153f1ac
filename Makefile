# The commands people type. Each does all it needs, from a Debian 12 or 13 that has make.
# CMake does the building (see CMakePresets.json); this file only names the usual steps.

JOBS ?= 2
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60

.PHONY: all setup setup-dev build demo test bench soak format lint install sanitize tsan fuzz clean

all: build

setup:
	tools/setup

setup-dev:
	tools/setup --dev

# The program, at build/lumi.
build: setup
	cmake --preset release
	cmake --build build/release --target program
	ln -sfn release/lumi build/lumi

# Asks the shipped model, teaches it, asks again, makes it forget.
demo: build
	tools/demo

test: build
	cmake --build build/release
	ctest --test-dir build/release --no-tests=error --output-on-failure -j$(JOBS)

# Small parts; `lumi bench MODEL` measures a whole model.
bench: build
	cmake --build build/release
	tools/bench

# Kills training runs, fills the disk, and sees that every checkpoint resumes.
soak: build
	tools/soak build/release/lumi models/lumi-small.gguf

format: setup-dev
	find src include tests bench fuzz -name '*.h' -o -name '*.cpp' | xargs -r clang-format -i

lint: setup-dev
	cmake --preset release
	run-clang-tidy -quiet -p build/release -j$(JOBS) "$(CURDIR)/(src|tests|bench)/"
	for check in tools/check_*.py; do python3 $$check || exit 1; done

install: build
	cmake --build build/release --target lumi_shared docs
	cmake --install build/release --prefix "$(PREFIX)"

# Optimised, with assertions, AddressSanitizer and UBSan.
sanitize: setup
	cmake --preset relassert
	cmake --build build/relassert
	ctest --test-dir build/relassert --no-tests=error --output-on-failure -j$(JOBS)

# The tests of everything that has threads.
tsan: setup
	cmake --preset tsan
	cmake --build build/tsan --target thread_tests
	ctest --test-dir build/tsan --no-tests=error --output-on-failure -j$(JOBS) -L threads

# FUZZ_SECONDS a target, starting from the seeds in fuzz/corpus/TARGET.
fuzz: setup-dev
	cmake --preset fuzz
	cmake --build build/fuzz
	tools/fuzz build/fuzz $(FUZZ_SECONDS)

clean:
	rm -rf build
