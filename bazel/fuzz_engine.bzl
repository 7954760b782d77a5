"""The flag that chooses the fuzzing engine."""

_ENGINES = ["replay", "libfuzzer", "afl", "oss-fuzz"]

def _fuzz_engine_flag_impl(ctx):
    if ctx.build_setting_value not in _ENGINES:
        fail("%s=%s: the engines are %s" % (ctx.label, ctx.build_setting_value, ", ".join(_ENGINES)))
    return []

fuzz_engine_flag = rule(
    implementation = _fuzz_engine_flag_impl,
    build_setting = config.string(flag = True),
)
