#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing on Debian and its relatives; elsewhere says what is needed and goes on.
# Usage: scripts/setup.sh [build] [test] [demo] [fuzz] [format]   (groups; default: build)
set -eu

build="build-essential cmake ninja-build
  mpich libmpich-dev libhdf5-mpich-dev libtrilinos-kokkos-dev libdnnl-dev libblis-dev
  libtomlplusplus-dev libcli11-dev libfmt-dev nlohmann-json3-dev libxxhash-dev zlib1g-dev
  libzstd-dev libicu-dev libpcre2-dev libsimdjson-dev libsentencepiece-dev libxml2-dev
  libgtest-dev"
demo="debian-reference-en debian-reference-de debian-reference-fr debian-reference-es
  debian-reference-it debian-reference-pt debian-reference-ja debian-reference-zh-cn"
test="$demo debian-reference-id debian-reference-pt-br debian-reference-zh-tw
  manpages-ru manpages-el manpages-uk zstd hdf5-tools libboost-context-dev"
fuzz="clang libclang-rt-14-dev"
format="clang-format-14"

wanted=
for group in "${@:-build}"; do
  case $group in
    build) wanted="$wanted $build" ;;
    test) wanted="$wanted $test" ;;
    demo) wanted="$wanted $demo" ;;
    fuzz) wanted="$wanted $fuzz" ;;
    format) wanted="$wanted $format" ;;
    *)
      echo "scripts/setup.sh: '$group' is no group of packages; choose from build test demo fuzz format" >&2
      exit 2
      ;;
  esac
done

if ! command -v apt-get >/dev/null 2>&1; then
  echo "setup: not a Debian system, so nothing is installed. Needed (Debian's package names):"
  echo "$wanted" | tr -s ' \n' '\n' | sed '/^$/d; s/^/  /'
  echo "setup: name the compilers, MPI and libraries of this site in Makefile.inc."
  exit 0
fi

missing=
for package in $wanted; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done
if [ -z "$missing" ]; then
  echo "setup: every package is there"
  exit 0
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "setup: neither root nor sudo. Have an administrator run:" >&2
    echo "  apt-get install --no-install-recommends$missing" >&2
    exit 1
  fi
  as_root="sudo"
fi
echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -q
# shellcheck disable=SC2086  # a list of names
$as_root apt-get install -y -q --no-install-recommends $missing
