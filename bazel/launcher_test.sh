#!/bin/bash
# The launcher, with a Bazel that does what the test says: statuses, messages, and what it leaves behind.
set -u
tree=$TEST_TMPDIR/tree
mkdir -p "$tree/bazel" "$tree/third_party/rdma_core" "$TEST_TMPDIR/home" "$TEST_TMPDIR/tmp" "$TEST_TMPDIR/need"
cp qpexam "$tree/" && cp bazel/setup.sh "$tree/bazel/" && cp third_party/rdma_core/pin.bzl "$tree/third_party/rdma_core/" || exit 1
export HOME=$TEST_TMPDIR/home TMPDIR=$TEST_TMPDIR/tmp QPEXAM_BAZEL=$TEST_TMPDIR/bazel
unset RDMA_CORE_DIR RDMA_CORE_VERSION RDMA_CORE_TARBALL RDMA_CORE_FETCH QPEXAM_BUILD QPEXAM_ROOT
# "Builds" a program that says what it was given; FAKE_STATUS and FAKE_SAYS are what the build does instead.
cat > "$QPEXAM_BAZEL" << 'EOF'
#!/bin/bash
echo "$*" >> "$HOME/bazel.log"
[ -z "${FAKE_SAYS:-}" ] || echo "$FAKE_SAYS" >&2
[ -z "${FAKE_STATUS:-}" ] || exit "$FAKE_STATUS"
for argument; do
  case $argument in --symlink_prefix=*) prefix=${argument#*=} ;; esac
done
[ "$1" = build ] || exit 0
mkdir -p "${prefix}bin/harness"
for argument; do
  case $argument in
    //harness:qpexam*)
      program=${prefix}bin/harness/${argument#*:}
      case $program in
        *_only_*) says='echo "group programs conforming violations known crashes time"; echo "total 9 4 2 3 1 0.1 s"' ;;
        *) says='[ -z "${PROGRAM_SAYS:-}" ] || eval "echo \"$PROGRAM_SAYS\""; exit ${PROGRAM_STATUS:-0}' ;;
      esac
      printf '%s\n' '#!/bin/bash' 'echo "ran $*"' "$says" > "$program"
      chmod +x "$program"
      ;;
  esac
done
EOF
chmod +x "$QPEXAM_BAZEL"
failures=0
# expect STATUS PATTERN [VARIABLE=VALUE...] [--] ARGUMENT...
expect() {
  local status=$1 pattern=$2 out got
  shift 2
  out=$(env "${@}" 2>&1 < /dev/null)
  got=$?
  if [ $got != "$status" ] || ! grep -q -- "$pattern" <<< "$out"; then
    echo "FAILED: status $got instead of $status, or nothing matches '$pattern': $*"
    sed 's/^/  | /' <<< "$out"
    failures=$((failures + 1))
  fi
}
q=$tree/qpexam

# The needs of a build are looked for on this machine; where one is missing nothing below can be tried.
source bazel/setup.sh
if [ -n "$(qpx_missing build)" ]; then
  echo "this machine lacks $(qpx_missing build)"
  exit 1
fi

# Nothing is built yet: each provider's first result comes before the whole program's report, unless the report is for
# scripts or of some providers alone.
only() { grep -c '_only_' "$HOME/bazel.log"; }
expect 0 '^ran check --json=x$' "$q" check --json=x
[ "$(only)" = 0 ] || { echo 'FAILED: a check for scripts waited for first results'; failures=$((failures + 1)); }
rm -r "$tree"/bazel-opt-bin
expect 0 '^qpexam: hosted:mlx5: 9 programs, 3 with findings, 3 with known deviations, the report follows$' "$q" check
first=$(only)
[ "$first" = 6 ] || { echo "FAILED: $first first results"; failures=$((failures + 1)); }
expect 0 '^ran check$' "$q" check
[ "$(only)" = 6 ] || { echo 'FAILED: what is built has first results again'; failures=$((failures + 1)); }
expect 1 '^ran check$' PROGRAM_STATUS=1 "$q" check
expect 2 "unknown command 'frob'" "$q" frob
expect 2 'usage: ./qpexam COMMAND' "$q"
expect 5 'fault of qpexam' FAKE_STATUS=1 FAKE_SAYS='error: x' "$q" check
expect 4 'lacks something of this machine' FAKE_STATUS=1 FAKE_SAYS='rdma-core 56.1 could not be had' "$q" check
expect 130 'interrupted while building' FAKE_STATUS=8 "$q" check
expect 2 'is not pinned here; there are: 44.0 56.1 65.0' RDMA_CORE_VERSION=1.0 "$q" check
expect 2 'is not pinned here' RDMA_CORE_VERSION=44x0 "$q" check
expect 0 '^ran check$' RDMA_CORE_VERSION=65.0 "$q" check
expect 2 "'foo' is no way" RDMA_CORE_FETCH=apt,foo "$q" check
expect 0 '^ran check$' RDMA_CORE_FETCH=apt,http "$q" check
expect 2 'cannot be read' RDMA_CORE_TARBALL=/no/such "$q" check
mkdir -p "$TEST_TMPDIR/their/libibverbs"
expect 0 "^$TEST_TMPDIR/their$" RDMA_CORE_DIR="$(realpath -m --relative-to=. "$TEST_TMPDIR/their")" PROGRAM_SAYS='$RDMA_CORE_DIR' "$q" check --json=x
expect 2 'is no tree of rdma-core' RDMA_CORE_DIR=/no/such "$q" check
expect 2 'it can be opt, asan or tsan' QPEXAM_BUILD=fast "$q" check
# The engines that coverage guides: a build of their own, of program and target.
if [ -z "$(qpx_missing clang)" ]; then
  expect 0 '^ran fuzz --engine=libfuzzer$' "$q" fuzz --engine=libfuzzer
  grep -q '^build --config=asan-libfuzzer .*//harness:qpexam //fuzzers:reference_fuzz_test_bin$' "$HOME/bazel.log" ||
    { echo 'FAILED: libFuzzer is not built'; failures=$((failures + 1)); }
fi
# What is compared is built too, with its own options, and the program learns where it lies.
if [ -z "$(qpx_missing clang)" ]; then
  expect 0 '^ran bench --sanitizers$' "$q" bench --sanitizers
  grep -q '^build --config=asan --symlink_prefix=bazel-asan- .*//harness:qpexam$' "$HOME/bazel.log" &&
    grep -q '^build --config=asan-libfuzzer --symlink_prefix=bazel-asan-libfuzzer- .*//fuzzers:measured$' "$HOME/bazel.log" &&
    grep -q '^build --config=opt .*//harness:qpexam //conformance:suites_on_provider$' "$HOME/bazel.log" ||
    { echo 'FAILED: bench does not build what it compares'; failures=$((failures + 1)); }
  expect 0 "^beside it: $tree/bazel-asan-bin/harness/qpexam, $tree/bazel-asan-libfuzzer-bin/fuzzers$" \
    PROGRAM_SAYS='beside it: $QPEXAM_BENCH_SANITIZED, $QPEXAM_BENCH_FUZZERS' "$q" bench --sanitizers
  expect 5 'fault of qpexam' FAKE_STATUS=1 FAKE_SAYS='error: x' "$q" bench --sanitizers
fi
if [ -z "$(qpx_missing afl)" ]; then
  expect 0 '^ran fuzz --engine afl$' "$q" fuzz --engine afl
  # The mutator is afl-fuzz's own to load: without a sanitizer.
  grep -q '^build --config=opt .*//fuzzers:libqpexam_afl_mutator.so$' "$HOME/bazel.log" &&
    grep -q '^build --config=asan-afl .*reference_fuzz_test_bin$' "$HOME/bazel.log" ||
    { echo 'FAILED: AFL++ is not built'; failures=$((failures + 1)); }
fi
expect 0 '' "$q" test //some:target
grep -q '^test .*//some:target' "$HOME/bazel.log" || { echo 'FAILED: test did not reach Bazel'; failures=$((failures + 1)); }
expect 1 '' FAKE_STATUS=3 "$q" test
expect 2 '' FAKE_STATUS=4 "$q" test //no:such
# Another user's tree: what is built lies beside one's own output.
if [ "$(id -u)" != 0 ]; then
  chmod -R a-w "$tree"
  expect 0 '^ran check$' "$q" check
  chmod -R u+w "$tree"
fi
# No home.
expect 0 '^ran check$' HOME= "$q" check
left=$(find "$TMPDIR" -name 'qpexam-build.*')
[ -z "$left" ] || { echo "FAILED: left behind: $left"; failures=$((failures + 1)); }
[ $failures = 0 ]
