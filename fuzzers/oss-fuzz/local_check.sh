#!/bin/bash
# Builds as OSS-Fuzz's image would and applies the rules of its check for bad builds, without Docker.
# local_check.sh [address|undefined] [TARGET...]     e.g. local_check.sh address //fuzzers:text_fuzz_test
# A whole build takes long; CI names one target.
set -eu
cd "$(dirname "$(readlink -f "$0")")/../.."

export SANITIZER=${1:-address} FUZZING_ENGINE=libfuzzer ARCHITECTURE=x86_64 FUZZING_LANGUAGE=c++
[ $# = 0 ] || shift
export QPEXAM_TARGETS="$*"
export CC=${CC:-clang-14} CXX=${CXX:-clang++-14}
common='-O1 -fno-omit-frame-pointer -gline-tables-only -Wno-error -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION'
case $SANITIZER in
  address) sanitizer='-fsanitize=address -fsanitize-address-use-after-scope' ;;
  undefined)
    sanitizer='-fsanitize=array-bounds,bool,builtin,enum,function,integer-divide-by-zero,null,object-size,return,returns-nonnull-attribute,shift,signed-integer-overflow,unreachable,vla-bound,vptr -fno-sanitize-recover=all'
    ;;
  *)
    echo "local_check.sh: $SANITIZER: it can be address or undefined" >&2
    exit 2
    ;;
esac
export CFLAGS="$common $sanitizer -fsanitize=fuzzer-no-link" CXXFLAGS="$common $sanitizer -fsanitize=fuzzer-no-link"
export LIB_FUZZING_ENGINE=-fsanitize=fuzzer

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SRC=$work/src OUT=$work/out WORK=$work/work
mkdir -p "$SRC" "$OUT" "$WORK"
ln -s "$PWD" "$SRC/qpexam"
bash -eu fuzzers/oss-fuzz/build.sh
# Runners have another $OUT: a path in a binary does not survive this.
mv "$OUT" "$work/moved"
OUT=$work/moved

calls() { objdump -d "$1" | grep -cE "callq?\s+[0-9a-f]+\s+<__$2" || true; }

bad=0 count=0
for fuzzer in "$OUT"/*; do
  [ -f "$fuzzer" ] && [ -x "$fuzzer" ] && grep -q LLVMFuzzerTestOneInput "$fuzzer" || continue
  count=$((count + 1))
  name=$(basename "$fuzzer") log=$work/log verdict=ok
  "$fuzzer" -seed=1337 -runs=4 > "$log" 2>&1 || verdict='crashes at its start'
  grep -q 'Done 4 runs' "$log" || verdict='ends before 4 runs'
  ! grep -q 'no interesting inputs were found' "$log" || verdict='has no coverage instrumentation'
  asan=$(calls "$fuzzer" asan) ubsan=$(calls "$fuzzer" ubsan)
  case $SANITIZER in
    address)
      [ "$asan" -ge 1000 ] || verdict="is not built with ASan ($asan calls)"
      [ "$ubsan" -le 200 ] || verdict="is built with UBSan as well ($ubsan calls)"
      ;;
    undefined) [ "$ubsan" -ge 168 ] || verdict="is not built with UBSan ($ubsan calls)" ;;
  esac
  libraries=$(ldd "$fuzzer" | grep -vE 'linux-vdso|ld-linux|lib(c|m|dl|pthread|rt|gcc_s|stdc\+\+|resolv)\.so' | awk '{print $1}' | xargs)
  [ -z "$libraries" ] || verdict="needs what the runner lacks: $libraries"
  if [ -f "$OUT/${name}_seed_corpus.zip" ]; then
    mkdir "$work/seeds-$name"
    python3 -m zipfile -e "$OUT/${name}_seed_corpus.zip" "$work/seeds-$name"
    "$fuzzer" -rss_limit_mb=2560 -timeout=25 -runs=0 "$work/seeds-$name" > "$log" 2>&1 || verdict='crashes on its seed corpus'
  else
    verdict='has no seed corpus'
  fi
  if [ -f "$OUT/$name.dict" ]; then
    "$fuzzer" -dict="$OUT/$name.dict" -runs=1 > "$log" 2>&1 || verdict='has a bad dictionary'
  fi
  echo "$name: $verdict ($asan calls of ASan, $ubsan of UBSan)"
  [ "$verdict" = ok ] || bad=1
done
if [ $count = 0 ]; then
  echo 'local_check.sh: there is no fuzz target in $OUT' >&2
  bad=1
fi
exit $bad
