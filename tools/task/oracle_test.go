package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOracleRule checks which functions checkOracle permits in which files.
func TestOracleRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"package a\nfunc TestA() {}\nfunc FuzzA() {}\n", ""},
		{"//go:build !race\n\npackage a\nfunc TestOracleA() {}\nfunc BenchmarkA() {}\nfunc helper() {}\n", ""},
		{"//go:build oracle && !race\n\npackage a\nfunc TestA() {}\n", "TestA is in a file that is not built for the race detector"},
		{"//go:build !race\n\npackage a\nfunc FuzzA() {}\n", "FuzzA is in a file that is not built"},
		{"//go:build oracle\n\npackage a\nfunc TestOracleA() {}\n", "TestOracleA is in a file that is built for the race detector"},
		{"//go:build linux && !race\n\n// A comment.\npackage a\nfunc TestA() {}\n", "TestA is in a file that is not built"},
	} {
		path := filepath.Join(t.TempDir(), "a_test.go")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := parseTests(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.check(); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}
