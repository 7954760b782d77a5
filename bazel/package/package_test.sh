#!/bin/bash
# The packed installation, unpacked elsewhere, works without the tree and without Bazel.
#
# usage: package_test.sh ARCHIVE DEB
set -u
archive=$PWD/$1 deb=$PWD/$2
failed=0
fail() {
  echo "FAILED: $*"
  failed=1
}

# Runs the command of the installation $1 in a folder with nothing in it.
try() {
  local root=$1
  mkdir -p "$TEST_TMPDIR/empty"
  cd "$TEST_TMPDIR/empty" || exit 1
  unset QPEXAM_ROOT RUNFILES_DIR TEST_SRCDIR
  "$root/bin/qpexam" --version | grep -q '^qpexam [0-9]' || fail "$root: --version"
  "$root/bin/qpexam" check --provider=reference --filter=atomic > check.txt || fail "$root: check: $(cat check.txt)"
  grep -q '^total' check.txt || fail "$root: check judged nothing: $(cat check.txt)"
  "$root/bin/qpexam" conform --group=ABI > conform.txt || fail "$root: conform: $(cat conform.txt)"
  "$root/bin/qpexam" clauses WR-ATOM-002 | grep -q 'WR-ATOM-002' || fail "$root: clauses"
  grep -q 'OpenIB.org BSD' "$root/share/doc/qpexam/copyright" || fail "$root: no licence of rdma-core"
  grep -q 'Apache License' "$root/share/doc/qpexam/copyright" || fail "$root: no licence"
  [ -s "$root/share/doc/qpexam/NOTICE" ] || fail "$root: no NOTICE"
  gzip -dc "$root/share/man/man1/qpexam.1.gz" | grep -q '^.SS conform' || fail "$root: manual page"
  bash -n "$root/share/bash-completion/completions/qpexam" || fail "$root: completion of bash"
  # Completion offers what was begun.
  (
    source "$root/share/bash-completion/completions/qpexam"
    COMP_WORDS=(qpexam con) COMP_CWORD=1
    _qpexam && [ "${COMPREPLY[*]}" = conform ]
  ) || fail "$root: completion of 'con'"
}

mkdir -p "$TEST_TMPDIR/archive" && tar -xzf "$archive" -C "$TEST_TMPDIR/archive" || fail "$archive: not a tar.gz"
try "$(echo "$TEST_TMPDIR"/archive/qpexam-*)"
dpkg-deb -x "$deb" "$TEST_TMPDIR/deb" || fail "$deb: not a Debian package"
[ "$(dpkg-deb -f "$deb" Package)" = qpexam ] || fail "$deb: control"
try "$TEST_TMPDIR/deb/usr"
exit $failed
