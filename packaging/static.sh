#!/bin/sh
# Builds the neap that the packages carry: one file that needs no library of the machine it runs on.
#
#   packaging/static.sh [x86_64|aarch64]     into target/packages/ARCH/neap
set -eu
cd "$(dirname "$0")/.."
arch=${1:-$(uname -m)}
folder=${CARGO_TARGET_DIR:-target}

case $arch in
    x86_64) ;;
    aarch64)
        # The linker and the C compiler of Debian's gcc-aarch64-linux-gnu, where the machine is another.
        [ "$(uname -m)" = aarch64 ] || export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
        ;;
    *)
        echo "neap is built for x86_64 and aarch64, not for $arch" >&2
        exit 2
        ;;
esac
target=$arch-unknown-linux-gnu
# With --target the flags reach neap alone, not what cargo builds to run it on this machine.
RUSTFLAGS="-C target-feature=+crt-static" cargo build --release -p neap-cli --target "$target"
install -D -m 755 "$folder/$target/release/neap" "$folder/packages/$arch/neap"
if LC_ALL=C readelf -lW "$folder/packages/$arch/neap" | grep -q INTERP; then
    echo "$folder/packages/$arch/neap is not static" >&2
    exit 1
fi
echo "$folder/packages/$arch/neap"
