#!/bin/bash
# oss_fuzz_package.sh OUT.tar NAME BIN MAX_LEN -- [SEED...] -- [DICT...]
# Packs a fuzzer as OSS-Fuzz wants it in $OUT. Equal contents give equal bytes.
set -eu

out=$(realpath -m "$1") name=$2 bin=$3 max_len=$4
shift 5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/out" "$work/seeds"

while [ $# -gt 0 ] && [ "$1" != -- ]; do
  cp -L "$1" "$work/seeds/$(sha1sum < "$1" | cut -c1-40)"
  shift
done
shift

cp -L "$bin" "$work/out/$name"
chmod 755 "$work/out/$name"
if [ -n "$(ls "$work/seeds")" ]; then
  python3 - "$work/seeds" "$work/out/${name}_seed_corpus.zip" << 'EOF'
import pathlib, sys, zipfile
with zipfile.ZipFile(sys.argv[2], "w", zipfile.ZIP_DEFLATED) as archive:
    for seed in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        archive.writestr(zipfile.ZipInfo(seed.name), seed.read_bytes())
EOF
fi
[ $# = 0 ] || cat "$@" > "$work/out/$name.dict"
[ "$max_len" = 0 ] || printf '[libfuzzer]\nmax_len = %s\n' "$max_len" > "$work/out/$name.options"
tar -C "$work/out" --sort=name --mtime=@0 --owner=0 --group=0 -cf "$out" .
