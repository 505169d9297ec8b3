package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"golang.org/x/tools/txtar"

	"toolhost.dev/host/cmd/test/hosttest"
)

var update = flag.Bool("update", false, "write the output of the program to the golden files")

// TestDiagnostics checks the output of "config validate". Each file NAME.hcl or NAME.json in the archive contains one
// mistake. The file NAME.want contains the expected output.
func TestDiagnostics(t *testing.T) {
	t.Parallel()
	const golden = "testdata/diagnostics.txtar"
	archive, err := txtar.ParseFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	want := make(map[string][]byte)
	var cases []txtar.File
	for _, f := range archive.Files {
		if name, ok := strings.CutSuffix(f.Name, ".want"); ok {
			want[name] = f.Data
			continue
		}
		cases = append(cases, f)
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(cases) < 40 {
		t.Errorf("there are only %d cases", len(cases))
	}
	var out []txtar.File
	toolhost := hosttest.NewResident(t)
	for _, f := range cases {
		name := strings.TrimSuffix(f.Name, filepath.Ext(f.Name))
		_, stderr, exit := toolhost.Run(t, dir, []string{"HOME=/home/u"}, "config", "validate", "--config", f.Name)
		if exit != 2 {
			t.Errorf("%s: exit status %d, want 2\n%s", f.Name, exit, stderr)
		}
		got := bytes.ReplaceAll([]byte(stderr), []byte(dir), []byte("DIR"))
		got = bytes.ReplaceAll(got, []byte(hosttest.Bin), []byte("BIN"))
		out = append(out, f, txtar.File{Name: name + ".want", Data: got})
		if !*update && !bytes.Equal(got, want[name]) {
			t.Errorf("%s\n%s", f.Name, diff.Diff("want", want[name], "got", got))
		}
		if first, _, _ := strings.Cut(string(got), "\n"); !strings.HasPrefix(first, f.Name+":") || !strings.Contains(string(got), " | ") {
			t.Errorf("%s: the output lacks the position or the line of the mistake:\n%s", f.Name, got)
		}
	}
	if *update && !t.Failed() {
		archive.Files = out
		if err := os.WriteFile(golden, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
