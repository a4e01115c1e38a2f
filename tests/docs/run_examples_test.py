#!/usr/bin/env python3
"""run_examples.py finds what is wrong with a document, and only that."""

import pathlib
import sys
import tempfile
import unittest

import run_examples as docs

UUID7 = "01a1fcf9-ed00-7cc3-98c4-dc0c0c07398f"
OTHER_UUID7 = "01a1fcf9-ed01-7000-8000-000000000000"
UUID4 = "919108f7-52d1-4320-9bac-f847db4148a8"


class Matching(unittest.TestCase):
    def test_lines_are_compared_exactly(self):
        self.assertTrue(docs.matches(["a.b"], ["a.b"]))
        self.assertFalse(docs.matches(["a.b"], ["axb"]))
        self.assertFalse(docs.matches(["a"], ["a", "b"]))
        self.assertFalse(docs.matches(["a", "b"], ["a"]))
        self.assertFalse(docs.matches([], ["a"]))

    def test_dots_stand_for_any_text_or_lines(self):
        self.assertTrue(docs.matches(["a ... c"], ["a b b c"]))
        self.assertFalse(docs.matches(["a ... c"], ["a b b d"]))
        self.assertTrue(docs.matches(["a", "...", "z"], ["a", "b", "c", "z"]))
        self.assertTrue(docs.matches(["a", "...", "z"], ["a", "z"]))
        self.assertFalse(docs.matches(["a", "...", "z"], ["a", "b"]))

    def test_shapes_tell_kinds_apart(self):
        self.assertEqual(docs.shape(UUID7), docs.shape(OTHER_UUID7))
        self.assertNotEqual(docs.shape(UUID7), docs.shape(UUID4))
        self.assertEqual(docs.shape("1000"), "1000")


class Documents(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.project = pathlib.Path(temporary.name)
        for folder in ("examples", "docs", "scripts", "build/bin"):
            (self.project / folder).mkdir(parents=True)
        (self.project / "examples/a.cc").write_text("int main() {\n  one();\n  two();\n  three();\n}\n")

    def problems(self, text):
        (self.project / "docs/a.md").write_text(text)
        blocks, prose = docs.blocks_of(text)
        return (docs.check_sessions("docs/a.md", blocks, self.project, self.project / "build")[0]
                + docs.check_excerpts("docs/a.md", blocks, self.project)[0]
                + docs.check_links("docs/a.md", text, prose, self.project)[0])

    def test_a_session_that_is_right(self):
        self.assertEqual(self.problems("```console\n$ echo a; \\\necho b\na\nb\n```\n"), [])

    def test_a_runbook_is_not_run(self):
        self.assertEqual(self.problems("```console runbook\n$ false\nb\n```\n"), [])

    def daemon(self, at_its_end="sys.exit(0)"):
        """The problems of a document with a daemon that listens nowhere."""
        program = self.project / "build/bin/idmintd"
        program.write_text(f"""#!{sys.executable}
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: {at_its_end})
print("idmintd: serving the Redis protocol on 127.0.0.1:40001", file=sys.stderr)
print("idmintd: serving HTTP on 127.0.0.1:40002", file=sys.stderr, flush=True)
print(sys.argv[1:])
signal.pause()
""")
        program.chmod(0o755)

        def problems(shown, rest=""):
            return self.problems(f"```console daemon\n$ idmintd\n{shown}\n```\n\n{rest}")
        return problems

    SERVES = ("idmintd: serving the Redis protocol on 127.0.0.1:7379\n"
              "idmintd: serving HTTP on 127.0.0.1:7380")

    def test_a_daemon_has_the_ports_that_are_shown(self):
        problems = self.daemon()
        self.assertEqual(problems(self.SERVES, "```console\n$ echo 7379 $((7380 - 40002))\n7379 0\n```\n"), [])

    def test_wrong_output_of_a_daemon_is_found(self):
        problems = self.daemon()
        session = "```console\n$ echo a\na\n```\n"
        self.assertEqual(len(problems(self.SERVES.replace("HTTP", "gRPC"), session)), 1)
        self.assertEqual(len(problems(self.SERVES + "\nmore", session)), 1)

    def test_a_daemon_must_end_well(self):
        session = "```console\n$ echo a\na\n```\n"
        self.assertEqual(len(self.daemon("sys.exit(3)")(self.SERVES, session)), 1)

    def test_wrong_output_is_found(self):
        self.assertEqual(len(self.problems("```console\n$ echo a\nb\n```\n")), 1)
        self.assertEqual(len(self.problems("```console\n$ echo a\n```\n")), 1)

    def test_sessions_of_a_document_share_their_state(self):
        self.assertEqual(self.problems("```console\n$ X=5\n```\n\n```console\n$ echo $X\n5\n```\n"), [])

    def test_a_failure_must_be_shown(self):
        self.assertEqual(len(self.problems("```console\n$ false\n```\n")), 1)
        self.assertEqual(self.problems("```console\n$ false\n$ echo $?\n1\n```\n"), [])

    def test_a_session_that_ends_early_is_found(self):
        self.assertEqual(len(self.problems("```console\n$ exit 0\n$ echo a\na\n```\n")), 1)

    def test_ids_are_compared_by_kind_only_where_marked(self):
        session = f"\n$ echo {UUID7}\n{OTHER_UUID7}\n```\n"
        self.assertEqual(self.problems("```console varies" + session), [])
        self.assertEqual(len(self.problems("```console" + session)), 1)

    def test_a_name_is_created_by_one_document_in_a_store(self):
        def twice(first, second):
            return docs.names_used_twice({name: docs.created_in(docs.blocks_of(f"```console\n{text}\n```\n")[0])
                                          for name, text in (("a.md", first), ("b.md", second))})
        self.assertIn("b.md:2: a.md creates a sequence orders in the default store",
                      twice("$ idmint create orders", "$ idmint create orders --max 9")[0])
        self.assertEqual(len(twice("$ export IDMINT_STORE=sqlite:x.db\n$ idmint create orders",
                                   "$ idmint create orders --store sqlite:x.db")), 1)
        self.assertEqual(len(twice("$ idmint create orders --over sqlite:x.db --over sqlite:y.db",
                                   "$ idmint create orders --store sqlite:y.db")), 1)
        self.assertEqual(twice("$ idmint create orders\n$ idmint create orders", "$ idmint create cards"), [])
        self.assertEqual(twice("$ idmint create orders", "$ idmint create orders --store sqlite:x.db"), [])

    def test_excerpts(self):
        self.assertEqual(self.problems("```cpp examples/a.cc\none();\ntwo();\n```\n"), [])
        self.assertEqual(self.problems("```cpp examples/a.cc\none();\n// ...\nthree();\n```\n"), [])
        self.assertEqual(len(self.problems("```cpp examples/a.cc\none();\nthree();\n```\n")), 1)
        self.assertEqual(len(self.problems("```cpp examples/a.cc\ntwo();\n// ...\none();\n```\n")), 1)
        self.assertEqual(len(self.problems("```cpp\none();\n```\n")), 1)
        self.assertEqual(len(self.problems("```cpp examples/none.cc\none();\n```\n")), 1)

    def test_excerpts_of_other_languages(self):
        (self.project / "examples/a.py").write_text("one()\ntwo()\nthree()\n")
        for language in ("python", "js"):
            self.assertEqual(self.problems(f"```{language} examples/a.py\none()\n# ...\nthree()\n```\n"), [])
            self.assertEqual(len(self.problems(f"```{language} examples/a.py\none()\nthree()\n```\n")), 1)
        self.assertEqual(len(self.problems("```python\none()\n```\n")), 1)
        self.assertEqual(self.problems("```js\none()\n```\n"), [])

    def test_links(self):
        self.assertEqual(self.problems("# A b\n[x](a.md) [y](#a-b) [z](https://example.org/)\n"), [])
        self.assertEqual(len(self.problems("[x](b.md)\n")), 1)
        self.assertEqual(len(self.problems("# A b\n[x](a.md#c)\n")), 1)
        self.assertEqual(len(self.problems("Run `scripts/none`.\n")), 1)


if __name__ == "__main__":
    unittest.main()
