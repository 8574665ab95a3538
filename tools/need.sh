#!/bin/bash
# Names what is missing on this machine; installs it where that is ours to do (root, with apt-get).
#
#   tools/need.sh build   what a build needs
#   tools/need.sh test    that, and what the end-to-end tests run; a test without its tool is skipped
set -u

# What is looked for, and the Debian package it comes with: a tool on the path, or a library.
build=(cc:gcc)
test=(python3:python3 redis-server:redis-server redis-cli:redis-tools sqlite3:sqlite3 xz:xz-utils
    setpriv:util-linux setcap:libcap2-bin busybox:busybox groff:groff-base zsh:zsh fish:fish valgrind:valgrind musl-gcc:musl-tools
    libjemalloc.so.2:libjemalloc2 libmimalloc.so.2:libmimalloc2.0 libtcmalloc_minimal.so.4:libtcmalloc-minimal4)

present() {
    case $1 in
        lib*) compgen -G "/usr/lib*/$1" >/dev/null || compgen -G "/usr/lib/*/$1" >/dev/null ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

wanted=("${build[@]}")
[ "${1:-build}" = test ] && wanted+=("${test[@]}")

missing_tools=() missing_packages=()
for pair in "${wanted[@]}"; do
    if ! present "${pair%%:*}"; then
        missing_tools+=("${pair%%:*}")
        missing_packages+=("${pair#*:}")
    fi
done
# The headers that C programs need come with their own package.
if command -v cc >/dev/null && ! echo '#include <stdio.h>' | cc -E - >/dev/null 2>&1; then
    missing_tools+=("C headers")
    missing_packages+=(libc6-dev)
elif ! command -v cc >/dev/null; then
    missing_packages+=(libc6-dev)
fi

if [ ${#missing_packages[@]} -gt 0 ]; then
    echo "missing: ${missing_tools[*]}"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing: ${missing_packages[*]}"
        export DEBIAN_FRONTEND=noninteractive
        log=$(mktemp)
        if ! { apt-get update && apt-get install -y --no-install-recommends "${missing_packages[@]}"; } \
            </dev/null >"$log" 2>&1; then
            tail -n 5 "$log"
            echo "could not install: ${missing_packages[*]}"
        fi
        rm -f "$log"
    else
        echo "try: apt-get install ${missing_packages[*]}"
    fi
fi

if ! command -v cargo >/dev/null; then
    echo "missing: cargo, 1.90 or later; try: rustup, or the package of your distribution"
    exit 1
fi
if ! command -v cc >/dev/null; then
    echo "missing: a C compiler"
    exit 1
fi
