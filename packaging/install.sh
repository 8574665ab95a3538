#!/bin/sh
# Installs the neap that lies beside this script, or takes it away again.
#
#   ./install.sh [--prefix DIR] [--uninstall]
#
# Without --prefix: /usr/local for root, ~/.local for everybody else.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
action=install
if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi

while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=${2:?--prefix wants a folder}; shift ;;
        --prefix=*) prefix=${1#--prefix=} ;;
        --uninstall) action=uninstall ;;
        *) sed -n '2,6s/^# \{0,1\}//p' "$0"; [ "$1" = --help ]; exit ;;
    esac
    shift
done

case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
cd "$here"
[ -f bin/neap ] || { echo "install.sh: no bin/neap beside it; unpack the whole tarball" >&2; exit 1; }
find bin share -type f | while read -r file; do
    if [ $action = uninstall ]; then
        rm -f "$prefix/$file"
        continue
    fi
    mkdir -p "$(dirname "$prefix/$file")"
    # A neap that runs keeps the file it was started from.
    cp "$file" "$prefix/$file.new"
    mv "$prefix/$file.new" "$prefix/$file"
done
[ $action = uninstall ] && exit
echo "installed: $prefix/bin/neap"
case :$PATH: in
    *:$prefix/bin:*) ;;
    *) echo "$prefix/bin is not in PATH" ;;
esac
echo "try: $prefix/bin/neap doctor"
