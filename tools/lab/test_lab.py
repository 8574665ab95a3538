"""Unit tests of the lab's parts that need no machine."""

import os
import tempfile
import unittest

import debian
import lab
import machine
import setups

INDEX = """Package: linux-image-6.12.9+deb13-amd64
Filename: a
Depends: kmod

Package: linux-image-6.12.117+deb13-amd64
Filename: b
Depends: kmod, linux-modules-6.12.117+deb13-amd64 (= 6.12.117-1), linux-binary-6.12.117+deb13-amd64 (= 6.12.117-1)

Package: linux-image-6.12.117+deb13-rt-amd64
Filename: c

Package: linux-modules-6.12.117+deb13-amd64
Filename: d
"""


class Lab(unittest.TestCase):
    def test_the_newest_kernel_is_taken_with_its_parts(self):
        name, parts = debian.wanted(debian.packages(INDEX), debian.SUITES["6.12"][1])
        self.assertEqual(name, "linux-image-6.12.117+deb13-amd64")
        self.assertEqual([part["Filename"] for part in parts], ["b", "d"])
        self.assertEqual(debian.version_of(name), [6, 12, 117])

    def test_a_kernel_has_the_rules_of_the_newest_known_before_it(self):
        rules = [setups.rules_of(version) for version in ((6, 1), (6, 12), (6, 18), (7, 2), (7, 10))]
        self.assertEqual(rules, ["6.12", "6.12", "6.12", "7.2", "7.2"])

    def test_an_archive_is_cut_into_whole_words(self):
        with tempfile.NamedTemporaryFile() as init:
            init.write(b"x" * 5)
            init.flush()
            archive = machine.first_files(init.name, {"brd": b"m"}, {"files.image": b"1234567"})
        self.assertEqual(len(archive) % 4, 0)
        self.assertEqual(archive.count(b"070701"), 4 + 1 + 1 + 2 + 1 + 1)
        self.assertIn(b"modules/00.name\0", archive)

    def test_a_module_comes_after_those_it_needs(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(f"{folder}/kernel/fs")
            for name, needs in (("ext4", "jbd2,mb-cache"), ("jbd2", ""), ("mb-cache", "jbd2")):
                with open(f"{folder}/kernel/fs/{name}.ko", "wb") as file:
                    file.write(b"\0depends=" + needs.encode() + b"\0")
            found = debian.modules(folder, ["ext4", "builtin"])
        self.assertEqual(list(found), ["jbd2", "mb_cache", "ext4"])

    def test_every_machine_of_an_experiment_has_the_same_parameters(self):
        for name, _, configs, machines in setups.EXPERIMENTS:
            self.assertGreaterEqual(len(machines), 4 if name == "lab-fairness" else 2)
            self.assertEqual(len({tuple(sorted(one)) for one in machines}), 1, name)
            self.assertGreaterEqual(len(configs), 2)
            words = lab.words_of("test", machines[0], next(iter(configs.values())), 3)
            self.assertEqual(words["seed"], 3)
            self.assertGreater(words["disk_kib"], 1024)


if __name__ == "__main__":
    unittest.main()
