"""Prints the manual page, or the completion of bash or zsh, from what the program says of itself.

The commands, options and examples come from `qpexam --help` and `qpexam help COMMAND`, so none of the three can tell
something else than the program does.

usage: describe.py QPEXAM man|bash|zsh
"""

import os
import re
import subprocess
import sys

SECTIONS = re.compile(r"^(Usage|Options|Positionals|Examples|Subcommands|Exit status):")

class Command:
    """What `qpexam help NAME` says: summary, usage, options as (names, values, description), positionals, examples."""

    def __init__(self, name, text):
        self.name, self.summary, self.usage = name, "", ""
        self.options, self.positionals, self.examples = [], [], []
        section = None
        for line in text.splitlines():
            head = SECTIONS.match(line)
            if head:
                section = head.group(1)
                if section == "Usage":
                    self.usage = line[len("Usage:"):].strip()
            elif not section:
                self.summary = (self.summary + " " + line).strip()
            elif section in ("Options", "Positionals"):
                self._entry(self.options if section == "Options" else self.positionals, line)
            elif section == "Examples" and line.strip():
                self.examples.append(line.strip())

    @staticmethod
    def _entry(entries, line):
        fits = re.match(r"^  (-\S+|\S+)(?: (.*?))?(?:\s{2,}(.*))?$", line)
        if line.startswith("  ") and not line.startswith("   ") and fits:
            values = re.sub(r"(Excludes|Needs): \S+", "", fits.group(2) or "").strip()
            entries.append([fits.group(1), values, (fits.group(3) or "").strip()])
        elif line.strip() and entries:
            entries[-1][2] = (entries[-1][2] + " " + line.strip()).strip()

    def long_options(self):
        return [name for names, _, _ in self.options for name in names.split(",") if name.startswith("--")]


def ask(qpexam, *words):
    done = subprocess.run([qpexam] + list(words), capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
    if done.returncode != 0:
        sys.exit("%s %s ended with status %d: %s" % (qpexam, " ".join(words), done.returncode, done.stderr))
    return done.stdout


def read(qpexam):
    top = ask(qpexam, "--help")
    names = re.findall(r"^  ([a-z][a-z-]*) {2,}\S", top.split("Subcommands:")[1], re.M)
    if len(names) < 10:
        sys.exit("`qpexam --help` lists only %s" % names)
    return ask(qpexam, "--version").strip(), [Command(n, ask(qpexam, "help", n)) for n in names if n != "help"]


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def man(version, commands):
    out = [
        '.TH QPEXAM 1 "" "%s" "User Commands"' % version,
        ".SH NAME",
        "qpexam \\- does a provider's ibv_qp_ex do what the API promises?",
        ".SH SYNOPSIS",
        ".B qpexam",
        ".I COMMAND",
        "[\\fIARGUMENT\\fR]...",
        ".SH DESCRIPTION",
        "Runs programs of RDMA work requests (\\fBibv_wr_start\\fR(3) to \\fBibv_wr_complete\\fR(3), and what surrounds",
        "them) on a libibverbs provider, follows every return code, completion and byte of memory, and answers with a",
        "clause of the specification, a verdict, and a program of a few lines that shows it.",
        "It needs no RDMA hardware, no kernel module and no root.",
        ".PP",
        "A provider is \\fBreference\\fR, \\fBfaulty:\\fINAME\\fR (the reference with a known mistake),",
        "\\fBhosted:\\fINAME\\fR (rdma\\-core's own provider code over an emulated kernel), or",
        "\\fBdevice:\\fINAME\\fR (a device of this machine, only ever opened when it is named);",
        "\\fBqpexam providers\\fR lists what this build and this machine have.",
        ".SH COMMANDS",
    ]
    for command in commands:
        out += [".SS %s" % roff(command.name), roff(command.summary[:1].upper() + command.summary[1:]) + "."]
        for names, values, text in command.positionals + command.options:
            if names == "-h,--help":
                continue
            out += [".TP", "\\fB%s\\fR %s" % (roff(names), roff(values)), roff(text)]
        if command.examples:
            out += [".PP", "Examples:", ".nf"] + [".RS 4"] + [roff(e) for e in command.examples] + [".RE", ".fi"]
    out += [
        ".SH EXIT STATUS",
        "The highest that applies.",
    ]
    for status, text in enumerate([
            "conforms", "findings in any provider, a crash or a hang included", "wrong usage or unreadable input",
            "a named provider could not be opened", "set\\-up incomplete; the line to type is printed",
            "a failure of qpexam itself"
    ]):
        out += [".TP", ".B %d" % status, text]
    out += [".SH SEE ALSO", ".BR ibv_wr_post (3),", ".BR ibv_create_qp_ex (3)"]
    return "\n".join(out) + "\n"


def bash(commands):
    cases = "\n".join("    %s) options='%s' ;;" % (c.name, " ".join(c.long_options())) for c in commands)
    return """# bash completion of qpexam(1)
_qpexam() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} options=
  if [ "$COMP_CWORD" = 1 ] || { [ "$COMP_CWORD" = 2 ] && [ "$command" = help ]; }; then
    COMPREPLY=($(compgen -W '%s help --help --version' -- "$word"))
    return
  fi
  case $before in
    --provider | --with)
      COMPREPLY=($(compgen -W "$("$1" providers 2> /dev/null | awk 'NF { print $1 }')" -- "$word"))
      return
      ;;
  esac
  case $command in
%s
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}
complete -o filenames -F _qpexam qpexam ./qpexam
""" % (" ".join(c.name for c in commands), cases)


def zsh(commands):
    def quoted(text):
        return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")

    lines = ["#compdef qpexam", "_qpexam() {", "  local -a commands", "  commands=("]
    lines += ["    '%s:%s'" % (c.name, quoted(c.summary)) for c in commands]
    lines += ["  )", "  if (( CURRENT == 2 )); then", "    _describe command commands", "    return", "  fi"]
    lines += ["  case ${words[2]} in"]
    for c in commands:
        # A flag stands alone; whatever takes a value is completed as a file unless it is a list of words.
        specs = []
        for names, values, text in c.options:
            for name in names.split(","):
                if name.startswith("--"):
                    specs.append("'%s%s[%s]%s'" % (name, "=" if values else "", quoted(text), ":value:_files" if values else ""))
        lines.append("    %s) _arguments %s '*:file:_files' ;;" % (c.name, " ".join(specs)))
    lines += ["    help) _describe command commands ;;", "  esac", "}", '_qpexam "$@"']
    return "\n".join(lines) + "\n"


def main():
    qpexam, kind = os.path.abspath(sys.argv[1]), sys.argv[2]
    version, commands = read(qpexam)
    sys.stdout.write(man(version, commands) if kind == "man" else {"bash": bash, "zsh": zsh}[kind](commands))


if __name__ == "__main__":
    main()
