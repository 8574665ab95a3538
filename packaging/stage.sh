#!/bin/sh
# Puts neap with its manual pages, completions and user unit below a prefix: what `make install` and the packages have.
#
#   packaging/stage.sh NEAP PREFIX
#
# NEAP_NATIVE: a neap that runs on this machine, where NEAP does not.
set -eu
neap=$1 prefix=$2 native=${NEAP_NATIVE:-$1}

install -D -m 755 "$neap" "$prefix/bin/neap"
install -d "$prefix/share/man/man1"
"$native" man "$prefix/share/man/man1"

completions() { # SHELL FILE
    mkdir -p "$(dirname "$prefix/share/$2")"
    "$native" completions "$1" >"$prefix/share/$2"
}
completions bash bash-completion/completions/neap
completions zsh zsh/site-functions/_neap
completions fish fish/vendor_completions.d/neap.fish

install -D -m 644 "$(dirname "$0")/systemd/neap@.service" "$prefix/share/systemd/user/neap@.service"
