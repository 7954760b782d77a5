"""A repository from a folder that a Debian package installs, else from a checksummed download."""

def _source_repository_impl(ctx):
    source = ctx.path(ctx.attr.dir)
    if source.exists:
        for entry in source.readdir():
            if entry.basename not in ["BUILD", "BUILD.bazel", "WORKSPACE", "MODULE.bazel"]:
                ctx.symlink(entry, entry.basename)
    else:
        got = ctx.download_and_extract(
            ctx.attr.urls,
            allow_fail = True,
            sha256 = ctx.attr.sha256,
            stripPrefix = ctx.attr.strip_prefix,
        )
        if not got.success:
            fail("%s: %s does not exist and no download worked (%s). On Debian: apt-get install %s" % (
                ctx.name,
                ctx.attr.dir,
                ", ".join(ctx.attr.urls),
                ctx.attr.package,
            ))
        for overlaid in ["BUILD", "BUILD.bazel"]:
            ctx.delete(overlaid)
    ctx.symlink(ctx.attr.build_file, "BUILD.bazel")

source_repository = repository_rule(
    implementation = _source_repository_impl,
    attrs = {
        "build_file": attr.label(mandatory = True, allow_single_file = True),
        "dir": attr.string(mandatory = True, doc = "where the package puts the sources"),
        "package": attr.string(mandatory = True, doc = "the Debian package, for the message"),
        "sha256": attr.string(mandatory = True),
        "strip_prefix": attr.string(),
        "urls": attr.string_list(mandatory = True),
    },
)
