"""sys_verbs: a program built on the installed libibverbs, beside the same program on the in-tree one."""

_FLAG = "//third_party:verbs"

def _to_sys_impl(_settings, _attr):
    return {_FLAG: "//third_party:verbs_sys"}

_to_sys = transition(
    implementation = _to_sys_impl,
    inputs = [],
    outputs = [_FLAG],
)

def _sys_verbs_impl(ctx):
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = program, target_file = ctx.executable.program, is_executable = True)
    return [DefaultInfo(
        executable = program,
        runfiles = ctx.attr.program[0][DefaultInfo].default_runfiles,
    )]

sys_verbs = rule(
    doc = "Builds `program` (a cc_binary that depends on //third_party:verbs) against libibverbs.so.1.",
    implementation = _sys_verbs_impl,
    executable = True,
    attrs = {
        "program": attr.label(
            cfg = _to_sys,
            executable = True,
            mandatory = True,
        ),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
