#!/bin/bash
# run.sh BIN NAME MAX_LEN [DICT...] -- [SEED...] -- [ENGINE ARGUMENT...]
# Runs a fuzzer of cc_fuzz_test on its seeds. New inputs and crashes go to $FUZZ_ROOT/NAME (default /tmp/fuzzing), which
# the next run continues. Works for libFuzzer's binaries and, by afl-fuzz, for AFL++'s.
set -eu

bin=$1 name=$2 max_len=$3
shift 3
dicts=()
while [ "$1" != -- ]; do [ -z "$1" ] || dicts+=("$1"); shift; done
shift
seeds=()
while [ "$1" != -- ]; do [ -z "$1" ] || seeds+=("$1"); shift; done
shift

root=${FUZZ_ROOT:-${TMPDIR:-/tmp}/fuzzing}/$name
mkdir -p "$root/corpus" "$root/artifacts" "$root/seeds"
for seed in "${seeds[@]}"; do cp -Lf "$seed" "$root/seeds/$(sha1sum < "$seed" | cut -c1-40)"; done
dictionary=()
if [ ${#dicts[@]} -gt 0 ]; then
  cat "${dicts[@]}" > "$root/dictionary"
  dictionary=("$root/dictionary")
fi

if grep -q __AFL_SHM_ID "$bin"; then
  [ -n "$(ls "$root/seeds")" ] || printf 0 > "$root/seeds/0"
  exec afl-fuzz -i "$root/seeds" -o "$root/afl" ${dictionary:+-x "$dictionary"} "$@" -- "$bin"
fi
[ "$max_len" = 0 ] || set -- -max_len="$max_len" "$@"
exec "$bin" -artifact_prefix="$root/artifacts/" ${dictionary:+-dict="$dictionary"} "$@" "$root/corpus" "$root/seeds"
