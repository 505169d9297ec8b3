package language

import (
	"slices"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for _, c := range []struct{ name, head, want string }{
		{"main.go", "", "Go"},
		{"/a/b.d/x.rs", "", "Rust"},
		{"App.tsx", "", "TSX"},
		{"x.d.ts", "", "TypeScript"},
		{"qt_de.ts", "<?xml version=\"1.0\"?>\n<TS>", "XML"},
		{"README.md", "# T", "Markdown"},
		{"README.MD", "", "Markdown"},
		{"Makefile", "", "Makefile"},
		{"Dockerfile", "", "Dockerfile"},
		{"CMakeLists.txt", "", "CMake"},
		{"notes.txt", "", "Text"},
		{"go.mod", "", "Go Module"},
		{".bashrc", "", "Shell"},
		{".gitignore", "", "Ignore List"},
		{"x.blade.php", "", "Blade"},
		{"a.h", "int f(void);\n", "C"},
		{"a.h", "#pragma once\nnamespace a {\n", "C++"},
		{"a.h", "class A;\n", "C++"},
		{"a.h", "// no class here\nint f(void);\n", "C"},
		{"a.h", "#import <Foundation/Foundation.h>\n", "Objective-C"},
		{"a.m", "#import \"a.h\"\n@implementation A\n", "Objective-C"},
		{"a.m", "% plot\nx = 1;\n", "MATLAB"},
		{"a.pl", "use strict;\n", "Perl"},
		{"a.pl", "p(X) :- q(X).\n", "Prolog"},
		{"app.properties", "", "Java Properties"},
		{"run", "#!/bin/sh\n", "Shell"},
		{"run", "#!/usr/bin/env python3.12\n", "Python"},
		{"run", "#!/usr/bin/env -S A=b node --x\n", "JavaScript"},
		{"run", "#! /usr/bin/perl -w\n", "Perl"},
		{"run", "#!/opt/nobody/knows\n", ""},
		{"run", "#!", ""},
		{"data", "<?xml version=\"1.0\"?>", "XML"},
		{"page", "<!DOCTYPE html>", "HTML"},
		{"unknown.zzz", "text", ""},
		{"noext", "", ""},
		{"", "", ""},
		{"...", "", ""},
		{"trailing.", "", ""},
	} {
		if got := Of(c.name, []byte(c.head)); got != c.want {
			t.Errorf("%q with %q: got %q, want %q", c.name, c.head, got, c.want)
		}
	}
}

// TestTables checks that the tables are sorted, because lookups use binary search. It also checks that each mark
// belongs to an extension of a language.
func TestTables(t *testing.T) {
	for name, table := range map[string][]entry{"extensions": extensions[:], "filenames": filenames[:], "interpreters": interpreters[:]} {
		if len(table) < 100 || !slices.IsSortedFunc(table, func(a, b entry) int { return strings.Compare(a.key, b.key) }) {
			t.Errorf("%s: %d entries, not sorted", name, len(table))
		}
	}
	for _, m := range marks {
		if find(extensions[:], m.ext) == "" {
			t.Errorf("no language has the extension %s", m.ext)
		}
	}
}

func BenchmarkOf(b *testing.B) {
	head := []byte(strings.Repeat("int f(int a, int b); /* c */\n", 300))
	for _, name := range []string{"a.go", "a.ts", "a.h", "x.unknown"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Of(name, head)
			}
		})
	}
}
