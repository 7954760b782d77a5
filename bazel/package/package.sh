#!/bin/bash
# Lays out an installation of qpexam and packs it: bin/qpexam, lib/qpexam/qpexam-suites (the conformance suites), the
# corpus and the expectations in share/qpexam, documents, manual page, completions, and the licences of what is linked in.
#
# usage: package.sh archive|deb OUT QPEXAM SUITES MAN BASH ZSH LICENCE [FILE...]
#   FILE  goes to share/qpexam by its path in the tree (corpus/..., conformance/...), to share/doc/qpexam otherwise; files
#         of rdma-core (.../rdma_core/COPYING*, .../ccan/LICENSE*) become licences.
set -eu
kind=$1 out=$(readlink -f "$(dirname "$2")")/$(basename "$2") qpexam=$3 suites=$4 man=$5 bash=$6 zsh=$7 licence=$8
shift 8

version=$("$qpexam" --version | awk '{ print $2 }')
rdma_core=$("$qpexam" --version | sed 's/.* with //')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "$kind" = deb ]; then root=$work/root/usr; else root=$work/qpexam-$version; fi
doc=$root/share/doc/qpexam

install -D -m 755 "$qpexam" "$root/bin/qpexam"
install -D -m 755 "$suites" "$root/lib/qpexam/qpexam-suites"
install -D -m 644 "$bash" "$root/share/bash-completion/completions/qpexam"
install -D -m 644 "$zsh" "$root/share/zsh/vendor-completions/_qpexam"
install -D -m 644 "$man" "$root/share/man/man1/qpexam.1"
gzip -9n "$root/share/man/man1/qpexam.1"
install -D -m 644 "$licence" "$doc/copyright"
for file in "$@"; do
  case $file in
    */rdma_core/*) install -D -m 644 "$file" "$doc/rdma-core/${file##*/rdma_core/}" ;;
    corpus/* | conformance/* | harness/report/*) install -D -m 644 "$file" "$root/share/qpexam/$file" ;;
    *) install -D -m 644 "$file" "$doc/$(basename "$file")" ;;
  esac
done

cat > "$doc/NOTICE" << EOF
qpexam $version, under the Apache License 2.0 (copyright in this folder).

The programs contain $rdma_core, compiled from its unmodified sources (libibverbs and provider libraries), under the
OpenIB.org BSD licence (MIT variant), with parts of ccan under the MIT licence and CC0: the texts are in rdma-core/ here.
EOF
{
  printf '\n%s\n\n' '----- rdma-core: COPYING.md, COPYING.BSD_MIT, COPYING.BSD_FB, ccan/LICENSE.MIT -----'
  for text in COPYING.md COPYING.BSD_MIT COPYING.BSD_FB ccan/LICENSE.MIT; do
    [ ! -e "$doc/rdma-core/$text" ] || { cat "$doc/rdma-core/$text"; echo; }
  done
} >> "$doc/copyright"

# One input, one archive, byte by byte.
find "$work" -exec touch -h -d @0 {} +
if [ "$kind" = deb ]; then
  mkdir "$work/root/DEBIAN"
  cat > "$work/root/DEBIAN/control" << EOF
Package: qpexam
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: The qpexam developers <qpexam@localhost>
Depends: libc6 (>= 2.34), libgcc-s1, libstdc++6 (>= 12)
Installed-Size: $(du -sk "$work/root/usr" | cut -f 1)
Section: net
Priority: optional
Description: conformance judge for the ibv_qp_ex API of libibverbs
 Runs programs of RDMA work requests on a libibverbs provider and judges every
 return code, completion and byte of memory by the clauses of the
 specification. Brings a reference provider and rdma-core's own providers over
 an emulated kernel; needs no RDMA hardware.
EOF
  touch -d @0 "$work/root/DEBIAN" "$work/root/DEBIAN/control"
  SOURCE_DATE_EPOCH=0 dpkg-deb --build --root-owner-group -Zxz "$work/root" "$out" > /dev/null
else
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$work" -cf - "$(basename "$root")" |
    gzip -9n > "$out"
fi
