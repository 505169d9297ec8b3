//go:build !race

package outline

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/plugins/grep/symbol"
)

// written formats a table in the format of the expected files, one symbol per line.
func written(t *symbol.Table) string {
	var b strings.Builder
	for _, s := range t.Symbols {
		name := s.Name
		if s.Container != "" {
			name = s.Container + " " + name
		}
		fmt.Fprintf(&b, "%d:%d-%d %s %s\n", s.Line, s.Column, s.EndLine, s.Kind, name)
	}
	return b.String()
}

// TestOracleOutlines compares the declarations of the files in testdata with the expected files. If UPDATE_OUTLINES=1
// is set, it updates the expected files; review the difference.
func TestOracleOutlines(t *testing.T) {
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	o := New()
	defer o.Close()
	seen := 0
	for _, file := range files {
		if strings.HasSuffix(file, ".outline") {
			continue
		}
		seen++
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			table, err := o.Table(t.Context(), strings.TrimSuffix(file, ".txt"), text)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s, broken: %t\n%s", table.Parser, table.Broken, written(table))
			if os.Getenv("UPDATE_OUTLINES") != "" {
				if err := os.WriteFile(file+".outline", []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file + ".outline")
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if table.Problem != "" {
				t.Errorf("a problem: %s", table.Problem)
			}
		})
	}
	if seen < 12 {
		t.Errorf("%d files in testdata", seen)
	}
}
