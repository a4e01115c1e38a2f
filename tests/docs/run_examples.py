#!/usr/bin/env python3
"""Runs what the documents show, and compares.

A fenced block marked `console` is a session: a line that begins with "$ " is a command (continued on
the next line after a backslash), the lines below it are what it prints, standard output and standard
error together. All sessions of one document share one bash, in a fresh folder with a fresh HOME, so
a later command sees what an earlier one did. The folder looks like a clone in which the presets dev
and release were built, and the programs are on the PATH.

  - Output is compared exactly, blanks at the end of a line aside.
  - "..." within a line stands for any text, a line "..." for any number of lines.
  - In a block marked `console varies`, ids and times are compared by their kind only: a version 7
    UUID must stand where the document shows one, but not the same one.
  - A block marked `console runbook` is not run here: restore/tests/runbook_test.cc follows it.
  - A block marked `console daemon` has the command "idmintd" and what it prints at its start. The
    daemon runs beside the sessions of the document. It listens on free ports: 7379 and 7380 in the
    commands are replaced by them, and put back into the output. SIGTERM must end it with status 0.
  - The home folder is shown as /home/you.
  - A command that fails must be followed by "$ echo $?", so that the document shows its exit status.
  - No two documents create a sequence of one name in one store, so a reader may follow them one after the other.

A block marked `cpp FILE` or `cmake FILE` is an excerpt: its lines occur in that file, next to each
other; a line "// ..." or "# ..." stands for lines left out. A block of code without a file is
refused. The same holds for `python`, `go`, `java` and `rust`, and for `js` and `sh` if a file is named.

Relative links lead to files and headings that exist, and so do all names of the form scripts/NAME.
"""

import argparse
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading

SHAPES = [
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b"),
     r"<uuid\1>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z"), "<time>"),
    (re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b"), "<ulid>"),
    (re.compile(r"\b[0-9a-f]{24}\b"), "<object-id>"),
    (re.compile(r"\b\d{19}\b"), "<snowflake>"),
]
FENCE = re.compile(r"^ *```(.*)$")
TIMEOUT_SECONDS = 240  # for one document
DAEMON_SECONDS = 60  # for its start, and for its end; it takes milliseconds
DAEMON_PORTS = {"the Redis protocol": "7379", "HTTP": "7380"}  # by what it serves, as the documents have them
EXCERPTS = ("cpp", "cmake", "python", "go", "java", "rust")


class Block:
    def __init__(self, info, line):
        self.words = info.split()
        self.line = line  # of its first line, from 1
        self.lines = []


def blocks_of(text):
    """The fenced blocks, and the text without them."""
    blocks, prose, inside = [], [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if inside is None and fence:
            inside = Block(fence.group(1), number + 1)
        elif inside is not None and fence:
            blocks.append(inside)
            inside = None
        elif inside is not None:
            inside.lines.append(line)
        else:
            prose.append(line)
    if inside is not None:
        raise ValueError(f"the block that begins in line {inside.line - 1} does not end")
    return blocks, "\n".join(prose)


class Command:
    def __init__(self, text, line, varies):
        self.text = text
        self.line = line
        self.varies = varies
        self.expected = []


def commands_of(blocks):
    commands = []
    for block in blocks:
        if block.words[:1] != ["console"]:
            continue
        if block.words[1:] in (["runbook"], ["daemon"]):
            continue
        if block.words[1:] not in ([], ["varies"]):
            raise ValueError(f"line {block.line - 1}: not a kind of session: {' '.join(block.words)}")
        if not block.lines or not block.lines[0].startswith("$ "):
            raise ValueError(f"line {block.line}: a session begins with a command")
        continued = False
        for number, line in enumerate(block.lines, block.line):
            if continued:
                commands[-1].text += "\n" + line
            elif line.startswith("$ "):
                commands.append(Command(line[2:], number, block.words[1:] == ["varies"]))
            else:
                commands[-1].expected.append(line)
                continue
            continued = line.endswith("\\")
    return commands


def created_in(blocks):
    """The sequences that a session creates by `idmint create`: {(store, name): line of the command}. The store is None
    if none is named."""
    created, store = {}, None
    for command in commands_of(blocks):
        words = shlex.split(command.text, comments=True)
        if words[:1] == ["export"] and words[1].startswith("IDMINT_STORE="):
            store = words[1].partition("=")[2]
        if words[:2] == ["idmint", "create"]:
            stores = [value for option, value in zip(words, words[1:]) if option in ("--store", "--over")]
            for each in stores or [store]:
                created[(each, words[2])] = command.line
    return created


def names_used_twice(sessions):
    """What two documents create, of {document: what created_in() says}."""
    problems, first = [], {}
    for name, created in sessions.items():
        for (store, sequence), line in created.items():
            other = first.setdefault((store, sequence), name)
            if other != name:
                problems.append(f"{name}:{line}: {other} creates a sequence {sequence} in {store or 'the default store'}, "
                                "too: take another name, for readers of both")
    return problems


def shape(line):
    for pattern, kind in SHAPES:
        line = pattern.sub(kind, line)
    return line


def same_line(expected, actual):
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    return re.fullmatch(pattern, actual) is not None


def matches(expected, actual):
    """Whether the lines are the expected ones, under the notation above."""
    if not expected:
        return not actual
    if expected[0] == "...":
        return any(matches(expected[1:], actual[i:]) for i in range(len(actual) + 1))
    return bool(actual) and same_line(expected[0], actual[0]) and matches(expected[1:], actual[1:])


def clean(lines, varies):
    lines = [line.rstrip() for line in lines]
    return [shape(line) for line in lines] if varies else lines


class Daemon:
    """The daemon of a document, if it has one: a context in which it runs."""

    def __init__(self, name, blocks, program, folder, environment):
        self.name = name
        self.blocks = [block for block in blocks if block.words == ["console", "daemon"]]
        if len(self.blocks) > 1:
            raise ValueError(f"line {self.blocks[1].line}: a document has one daemon")
        if self.blocks and self.blocks[0].lines[:1] != ["$ idmintd"]:
            raise ValueError(f"line {self.blocks[0].line}: the daemon is started with \"$ idmintd\"")
        self.command = [program, "--redis", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        self.folder = folder
        self.environment = environment
        self.ports = {}  # by the port that the documents show
        self.problems = []

    def __enter__(self):
        if not self.blocks:
            return self
        if not self.command[0].exists():
            raise ValueError(f"{self.command[0]} does not exist")
        self.process = subprocess.Popen(self.command, cwd=self.folder, env=self.environment, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        limit = threading.Timer(DAEMON_SECONDS, self.process.kill)
        limit.start()
        said = []
        for line in self.process.stderr:
            said.append(line.rstrip("\n"))
            if found := re.fullmatch(r"idmintd: serving (.*) on .*:(\d+)\n", line):
                self.ports[DAEMON_PORTS[found[1]]] = found[2]
            if len(self.ports) == len(DAEMON_PORTS):
                break
        limit.cancel()
        actual = self.as_shown("\n".join(said)).splitlines()
        if actual != self.blocks[0].lines[1:]:
            self.problems.append(f"{self.name}:{self.blocks[0].line}: the daemon says\n"
                                 + textwrap.indent("\n".join(actual), "  "))
        return self

    def __exit__(self, *_):
        if not self.blocks:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=DAEMON_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        if self.process.returncode != 0:
            self.problems.append(f"{self.name}:{self.blocks[0].line}: the daemon ended with status "
                                 f"{self.process.returncode} after SIGTERM")

    def as_run(self, command):
        for shown, port in self.ports.items():
            command = re.sub(rf"\b{shown}\b", port, command)
        return command

    def as_shown(self, output):
        for shown, port in self.ports.items():
            output = re.sub(rf"\b{port}\b", shown, output)
        return output


def run_session(commands, folder, environment, as_run=lambda command: command):
    """Runs the commands in one bash; returns (output, status) of each that was reached."""
    mark = f"mark-{os.urandom(8).hex()}"
    script = ["exec 2>&1 </dev/null", f"mark() {{ local s=$?; printf '\\n{mark} %d\\n' $s; return $s; }}"]
    for command in commands:
        script += [as_run(command.text), "mark"]
    path = folder.parent / "session.sh"
    path.write_text("\n".join(script) + "\n")
    done = subprocess.run(["bash", "--noprofile", "--norc", str(path)], cwd=folder, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_SECONDS,
                          check=False)
    results, rest = [], done.stdout.decode("utf-8", "replace")
    for part in re.split(rf"\n{mark} (\d+)\n", rest)[:-1]:
        results.append(part)
    return list(zip(results[0::2], map(int, results[1::2])))


def check_sessions(name, blocks, project, build, compiler=None):
    commands = commands_of(blocks)
    if not commands:
        return [], 0
    with tempfile.TemporaryDirectory() as temporary:
        home = pathlib.Path(temporary).resolve() / "home"
        clone = home / "idmint"
        (clone / "build").mkdir(parents=True)
        for preset in ("dev", "release"):
            (clone / "build" / preset).symlink_to(build)
        for entry in ("examples", "scripts", "tests", "restore"):
            (clone / entry).symlink_to(project / entry)
        environment = {
            "HOME": str(home), "LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "dumb",
            "PATH": os.pathsep.join([str(build / "bin"), os.environ["PATH"]]),
            **(compiler or {}),  # for programs that link the library of the build tree
        }
        with Daemon(name, blocks, build / "bin/idmintd", clone, environment) as daemon:
            results = run_session(commands, clone, environment, daemon.as_run)
            results = [(daemon.as_shown(output.replace(str(home), "/home/you")), status) for output, status in results]
    problems = daemon.problems
    for command, (output, status) in zip(commands, results):
        actual = clean(output.splitlines(), command.varies)
        expected = clean(command.expected, command.varies)
        if not matches(expected, actual):
            problems.append(f"{name}:{command.line}: $ {command.text}\n"
                            + textwrap.indent("\n".join(command.expected), "  document: ") + "\n"
                            + textwrap.indent(output.rstrip("\n"), "  program:  "))
        position = commands.index(command)
        shown = position + 1 < len(commands) and commands[position + 1].text == "echo $?"
        if status != 0 and not shown:
            problems.append(f"{name}:{command.line}: $ {command.text}\n  ended with status {status}, which "
                            "the document does not show: add \"$ echo $?\"\n"
                            + textwrap.indent(output.rstrip("\n"), "  program:  "))
    if len(results) < len(commands):
        problems.append(f"{name}:{commands[len(results)].line}: the session did not get past "
                        f"$ {commands[len(results)].text}")
    return problems, len(commands)


def occurs(part, lines):
    """Whether `part` is a run of `lines`, perhaps indented there; the index after it, or None."""
    for indent in ("", "  ", "    ", "\t"):
        wanted = [indent + line if line else line for line in part]
        for i in range(len(lines) - len(wanted) + 1):
            if lines[i:i + len(wanted)] == wanted:
                return i + len(wanted)
    return None


def check_excerpts(name, blocks, project):
    problems, count = [], 0
    for block in blocks:
        language = block.words[0] if block.words else ""
        if language not in EXCERPTS and not (language in ("js", "sh") and len(block.words) > 1):
            continue
        count += 1
        where = f"{name}:{block.line}"
        if len(block.words) != 2 or not (project / block.words[1]).is_file():
            problems.append(f"{where}: code must name the file that it is taken from")
            continue
        lines = (project / block.words[1]).read_text().splitlines()
        part = []
        for line in block.lines + ["// ..."]:
            if line.strip() not in ("// ...", "# ..."):
                part.append(line)
                continue
            after = occurs(part, lines)
            if after is None:
                problems.append(f"{where}: does not occur in {block.words[1]}:\n"
                                + textwrap.indent("\n".join(part), "  "))
                break
            lines, part = lines[after:], []
    return problems, count


def anchors_of(path):
    """The names by which links reach the headings."""
    _, prose = blocks_of(path.read_text())
    anchors = set()
    for heading in re.findall(r"^#+ +(.*)$", prose, re.MULTILINE):
        anchors.add(re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-"))
    return anchors


def check_links(name, text, prose, project):
    problems, count = [], 0
    document = project / name
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        count += 1
        path, _, anchor = target.partition("#")
        file = (document.parent / path) if path else document
        if not file.exists():
            problems.append(f"{name}: the link to {target} leads nowhere")
        elif anchor and anchor not in anchors_of(file):
            problems.append(f"{name}: {target}: no such heading")
    for script in sorted(set(re.findall(r"\bscripts/[a-z][a-z_.-]*[a-z]\b", text))):
        count += 1
        if not (project / script).exists():
            problems.append(f"{name}: {script} does not exist")
    return problems, count


def main():
    parser = argparse.ArgumentParser(description="Runs what the documents show, and compares.")
    parser.add_argument("--project", type=pathlib.Path, required=True, help="the source tree")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build tree; programs in bin/")
    parser.add_argument("--cxx", default="c++", help="the compiler of the build tree")
    parser.add_argument("--cxx-flags", default="", help="its flags, such as those of a sanitizer")
    parser.add_argument("documents", nargs="*", help="relative to the project; without any, all of them")
    arguments = parser.parse_args()
    project, build = arguments.project.resolve(), arguments.build.resolve()
    documents = arguments.documents or sorted(
        str(path.relative_to(project))
        for path in [*project.glob("*.md"), *project.glob("docs/**/*.md"), *project.glob("*/README.md")])
    problems, commands, excerpts, links = [], 0, 0, 0
    sessions = {}
    for name in documents:
        text = (project / name).read_text()
        try:
            blocks, prose = blocks_of(text)
            sessions[name] = created_in(blocks)
            found = [check_sessions(name, blocks, project, build,
                                    {"CXX": arguments.cxx, "CXXFLAGS": arguments.cxx_flags}),
                     check_excerpts(name, blocks, project),
                     check_links(name, text, prose, project)]
        except (ValueError, subprocess.TimeoutExpired) as error:
            problems.append(f"{name}: {error}")
            continue
        problems += [problem for list_, _ in found for problem in list_]
        commands, excerpts, links = (total + count for total, (_, count)
                                     in zip((commands, excerpts, links), found))
    problems += names_used_twice(sessions)
    for problem in problems:
        print(problem, end="\n\n")
    print(f"{len(documents)} documents: {commands} commands, {excerpts} excerpts, {links} links; "
          f"{len(problems)} problems")
    if not arguments.documents and (commands == 0 or excerpts == 0 or links == 0):
        print("nothing was checked: the documents have no sessions, excerpts or links that this understands")
        return 1
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
