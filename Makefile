# SPDX-License-Identifier: Apache-2.0
# A thin door to CMake: every rule calls a preset of CMakePresets.json or a script.
# Site facts stand in Makefile.inc; a variable of the environment or the command line wins.

# `override` keeps what the environment said while Makefile.inc is read (make would drop it).
site_names := $(shell sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' Makefile.inc)
$(foreach name,$(site_names),$(if $(findstring environment,$(origin $(name))),\
  $(eval override $(name) := $$(value $(name)))))
include Makefile.inc
export $(site_names)

jobs := $(or $(JOBS),$(shell getconf _NPROCESSORS_ONLN))
# More options for CMake, as in make CONFIGURE_FLAGS=-DESPALIER_WARNINGS_AS_ERRORS=ON test
CONFIGURE_FLAGS ?=
FUZZ_SECONDS ?= 20
ctest := ctest --output-on-failure -j $(TEST_JOBS)
sources = $(shell git ls-files --cached --others --exclude-standard -- \
            '*.cpp' '*.hpp' '*.cu' '*.cuh')

.PHONY: help setup build test demo asan fuzz cuda cuda-compile format lint clean
.DEFAULT_GOAL := help

help:
	@echo 'make setup   install the missing Debian packages (elsewhere: print what is needed)'
	@echo 'make build   setup, then compile both programs and the tests into build/release'
	@echo 'make test    build, then run the whole suite'
	@echo 'make demo    build, train a small model on real text with 2 ranks, write the report'
	@echo 'make asan    build and run the suite under AddressSanitizer and UBSan (build/asan)'
	@echo 'make fuzz    build the fuzzers with clang and run each for FUZZ_SECONDS (build/fuzz)'
	@echo 'make cuda    build for GPUs into build/cuda (Kokkos_ROOT: a Kokkos with CUDA; docs/gpu.md)'
	@echo 'make cuda-compile  compile cuda/ with nvcc, warnings as errors; needs no GPU'
	@echo 'make format  rewrite the C++ and CUDA sources with clang-format 14'
	@echo 'make lint    clang-tidy over the sources, zero findings demanded'
	@echo 'make clean   remove build/ and demo/'
	@echo 'Site facts (compilers, MPI, HDF5, Kokkos, CUDA, flags, jobs): Makefile.inc'

setup:
	@scripts/setup.sh build

build: setup
	@scripts/configure.sh release $(CONFIGURE_FLAGS)
	cmake --build --preset release -j $(jobs)

test:
	@scripts/setup.sh build test
	@scripts/configure.sh release $(CONFIGURE_FLAGS)
	cmake --build --preset release -j $(jobs)
	$(ctest) --preset all

demo:
	@scripts/setup.sh build demo
	@scripts/configure.sh release $(CONFIGURE_FLAGS)
	cmake --build --preset release -j $(jobs) --target espalier espalier-spmd
	@scripts/demo.sh

asan: setup
	@scripts/configure.sh asan $(CONFIGURE_FLAGS)
	cmake --build --preset asan -j $(jobs)
	$(ctest) --preset asan

fuzz:
	@scripts/setup.sh build fuzz
	@CC=clang CXX=clang++ scripts/configure.sh fuzz -DESPALIER_FUZZ_SECONDS=$(FUZZ_SECONDS)
	cmake --build --preset fuzz -j $(jobs)
	$(ctest) --preset fuzz

cuda: setup
	@scripts/configure.sh cuda $(CONFIGURE_FLAGS)
	cmake --build --preset cuda -j $(jobs)

cuda-compile: setup
	@scripts/configure.sh release $(CONFIGURE_FLAGS)
	cmake --build --preset release -j $(jobs) --target cuda-compile

format:
	@scripts/setup.sh format
	clang-format-14 -i $(sources)

lint: build
	clang-tidy --quiet -p build/release $(filter src/%.cpp,$(sources))

clean:
	rm -rf build demo
