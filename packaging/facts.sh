# What the scripts of packages have to know of a binary. To be sourced: `. packaging/facts.sh NEAP`; sets arch, native, version, date.

# The machine it is for, from its ELF header.
case $(od -An -tu2 -j18 -N2 "$1" | tr -d ' ') in
    62) arch=x86_64 ;;
    183) arch=aarch64 ;;
    *) echo "$1 is not a neap for x86_64 or aarch64" >&2; exit 1 ;;
esac
# One that runs here and has the same flags, where this one does not.
native=${NEAP_NATIVE:-$1}
version=$("$native" --version | cut -d' ' -f2)
# The same sources give the same bytes.
date=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
