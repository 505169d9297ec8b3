package unidiff_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"toolhost.dev/sdk/unidiff"
)

func TestParse(t *testing.T) {
	one := []unidiff.Hunk{{Old: "a\nb\n", New: "a\nc\n", Start: 1, Line: 3}}
	for _, c := range []struct {
		name, diff string
		want       []unidiff.File
	}{
		{"plain", "--- x\n+++ x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", []unidiff.File{{Old: "x", New: "x", Line: 1, Hunks: one}}},
		{"git's prefixes", "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", []unidiff.File{{Old: "x", New: "x", Line: 1, Hunks: one}}},
		{"a directory that is called a", "--- a/x\n+++ a/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", []unidiff.File{{Old: "a/x", New: "a/x", Line: 1, Hunks: one}}},
		{"times", "--- x\t2026-01-01 00:00:00\n+++ x\t2026-01-02 00:00:00\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", []unidiff.File{{Old: "x", New: "x", Line: 1, Hunks: one}}},
		{"quoted", "--- \"a/\\303\\244 x\"\n+++ \"b/\\303\\244 x\"\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", []unidiff.File{{Old: "ä x", New: "ä x", Line: 1, Hunks: one}}},
		{"wrong counts", "--- x\n+++ x\n@@ -1,99 +7 @@ func\n a\n-b\n+c\n", []unidiff.File{{Old: "x", New: "x", Line: 1, Hunks: one}}},
		{"carriage returns", "--- x\r\n+++ x\r\n@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c\r\n", []unidiff.File{{Old: "x", New: "x", Line: 1, Hunks: one}}},
		{
			"no numbers, and a header that is none", "@@\n a\n-b\n+c\n@@ @@\n \n-d\n",
			[]unidiff.File{{Line: 1, Hunks: []unidiff.Hunk{{Old: "a\nb\n", New: "a\nc\n", Line: 1}, {Old: "\nd\n", New: "\n", Line: 5}}}},
		},
		{
			"empty lines are context, but not at the end", "--- x\n+++ x\n@@ -1,2 +1,2 @@\n a\n\n-b\n\n\n",
			[]unidiff.File{{Old: "x", New: "x", Line: 1, Hunks: []unidiff.Hunk{{Old: "a\n\nb\n", New: "a\n\n", Start: 1, Line: 3}}}},
		},
		{
			"lines that look like headers", "--- x\n+++ x\n@@ -1,2 +1,2 @@\n a\n--- b\n++ c\n",
			[]unidiff.File{{Old: "x", New: "x", Line: 1, Hunks: []unidiff.Hunk{{Old: "a\n-- b\n", New: "a\n+ c\n", Start: 1, Line: 3}}}},
		},
		{
			"newlines at the end", "--- x\n+++ x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n",
			[]unidiff.File{{Old: "x", New: "x", Line: 1, Hunks: []unidiff.Hunk{{Old: "a\n", New: "b\n", Start: 1, OldOpen: true, Line: 3}}}},
		},
		{
			"created, deleted, renamed", "From: me\n\ndiff --git a/n b/n\nnew file mode 100755\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n" +
				"diff --git a/d b/d\ndeleted file mode 100644\n--- a/d\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\ndiff --git a/o b/p\nrename from o\nrename to p\n-- \n2.40.0\n",
			[]unidiff.File{
				{New: "n", Mode: 0o755, Line: 3, Hunks: []unidiff.Hunk{{New: "a\n", Inserts: true, Line: 7}}},
				{Old: "d", Line: 9, Hunks: []unidiff.Hunk{{Old: "a\n", Start: 1, Line: 13}}},
				{Old: "o", New: "p", Line: 15},
			},
		},
		{
			"a patch", "*** Begin Patch\n*** Add File: new.txt\n+a\n+\n*** Update File: x.go\n*** Move to: y.go\n@@ type A struct\n@@ func f()\n a\n-b\n+c\n\n@@\n d\n+e\n*** End of File\n*** Delete File: old\n*** End Patch\n",
			[]unidiff.File{
				{New: "new.txt", Envelope: true, Line: 2, Hunks: []unidiff.Hunk{{New: "a\n\n", Line: 3}}},
				{Old: "x.go", New: "y.go", Envelope: true, Line: 5, Hunks: []unidiff.Hunk{
					{Old: "a\nb\n", New: "a\nc\n", Above: []string{"type A struct", "func f()"}, Line: 7},
					{Old: "d\n", New: "d\ne\n", AtEnd: true, Line: 13},
				}},
				{Old: "old", Whole: true, Envelope: true, Line: 17},
			},
		},
		{
			"a patch without @@ and without its ends, in a code block", "```\n*** Update File: x\n-b\n+c\n```\n",
			[]unidiff.File{{Old: "x", New: "x", Envelope: true, Line: 2, Hunks: []unidiff.Hunk{{Old: "b\n", New: "c\n", Line: 3}}}},
		},
		{
			"a patch without @@ and without its ends", "*** Update File: x\n-b\n+c\n",
			[]unidiff.File{{Old: "x", New: "x", Envelope: true, Line: 1, Hunks: []unidiff.Hunk{{Old: "b\n", New: "c\n", Line: 2}}}},
		},
		{
			"a patch with a quoted path", "*** Begin Patch\n*** Delete File: \"a b\"\n*** End Patch\n",
			[]unidiff.File{{Old: "a b", Whole: true, Envelope: true, Line: 2}},
		},
		{
			"a patch that only adds lines", "*** Begin Patch\n*** Update File: x\n@@\n+c\n*** End Patch",
			[]unidiff.File{{Old: "x", New: "x", Envelope: true, Line: 2, Hunks: []unidiff.Hunk{{New: "c\n", AtEnd: true, Line: 3}}}},
		},
	} {
		got, err := unidiff.Parse(c.diff)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", c.name, got, err, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for diff, want := range map[string]string{
		"":                                "no hunks",
		"no diff at all\n":                "no hunks",
		"--- x\n+++ x\n":                  ": x has no hunks",
		"--- x\n+++ x\n@@ -1 +1 @@\n a\n": "changes nothing",
		"--- x\n+++ x\n@@ -1 +1 @@\na\n":  "line 4:",
		"--- x\n+++ y\n@@ -1 +1 @@\n-a\n": "rename from x",
		"--- x\n+++ x\n-a\n+b\n":          "",
		"--- /dev/null\n+++ /dev/null\n":  "both sides",
		"diff --git a/x b/x\nBinary files a/x and b/x differ\n":                                 "binary",
		"diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 1\n":                         "binary",
		"diff --git a/x b/y\ncopy from x\ncopy to y\n":                                          "copies",
		"diff --git a/x b/x\nold mode 100644\n":                                                 "no hunks",
		"diff --git a/x b/x\nold mode 100644\nnew mode executable\n":                            "100755",
		"diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+y\n": "symbolic link",
		"*** Begin Patch\n*** End Patch\n":                                                      "names no file",
		"*** Begin Patch\n*** Update File: x\n*** End Patch\n":                                  "x has no hunks",
		"*** Begin Patch\n*** Update File: x\n@@\n a\n*** End Patch\n":                          "changes nothing",
		"*** Begin Patch\n*** Update File: x\n@@\n-a\nb\n*** End Patch\n":                       "line 5:",
		"*** Begin Patch\n*** Add File: x\na\n*** End Patch\n":                                  "does not begin with +",
		"*** Begin Patch\n*** Delete File: \n*** End Patch\n":                                   "path is missing",
		"*** Begin Patch\n*** Delete File: x\n+a\n*** End Patch\n":                              "outside of a file",
		"--- x\n+++ x\n@@ -1 +1 @@\n-a\n```\n+b\n":                                              "is outside of a hunk",
	} {
		files, err := unidiff.Parse(diff)
		var e *unidiff.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v, want an error with %q", diff, files, err, want)
		}
	}
}

// FuzzParse checks that no text makes the parser panic, and that every parsed file has a path.
func FuzzParse(f *testing.F) {
	f.Add("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n")
	f.Add("diff --git a/o b/p\nrename from o\nrename to p\n@@\n-x\n\\ No newline at end of file\n+y\n")
	f.Add("diff --git \"a/\\303\" b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n-- \n2\n")
	f.Fuzz(func(t *testing.T, diff string) {
		files, err := unidiff.Parse(diff)
		if err != nil {
			return
		}
		if len(files) == 0 {
			t.Fatal("no files and no error")
		}
		for _, file := range files {
			if len(file.Hunks) == 0 && file.Old == file.New {
				t.Fatalf("%+v changes nothing", file)
			}
			for _, h := range file.Hunks {
				if h.Old == h.New && h.OldOpen == h.NewOpen || h.Old != "" && !strings.HasSuffix(h.Old, "\n") || h.New != "" && !strings.HasSuffix(h.New, "\n") {
					t.Fatalf("%+v", h)
				}
			}
		}
	})
}
