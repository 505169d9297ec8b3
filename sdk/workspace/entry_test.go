package workspace_test

import (
	"io/fs"
	"testing"
	"time"

	"toolhost.dev/sdk/workspace"
)

func TestEntry(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("east", 3600))
	for _, c := range []struct {
		e          workspace.Entry
		line, kind string
	}{
		{workspace.Entry{Name: "a b", Size: 1536, Modified: at, Mode: 0o644}, "a b  1.5 KiB  2026-01-02 02:04", "file"},
		{workspace.Entry{Name: "d", Mode: fs.ModeDir | 0o755}, "d/", "directory"},
		{workspace.Entry{Name: "l", Mode: fs.ModeSymlink, Target: "to\n"}, `l -> "to\n"`, "symlink"},
		{workspace.Entry{Name: "f", Mode: fs.ModeNamedPipe}, "f  (fifo)", "fifo"},
		{workspace.Entry{Name: "s", Mode: fs.ModeSocket}, "s  (socket)", "socket"},
		{workspace.Entry{Name: "n", Mode: fs.ModeDevice | fs.ModeCharDevice}, "n  (device)", "device"},
		{workspace.Entry{Name: "line\nfeed", Mode: fs.ModeDir}, `"line\nfeed"/`, "directory"},
		{workspace.Entry{Name: `"quoted"`, Mode: fs.ModeDir}, `"\"quoted\""/`, "directory"},
		{workspace.Entry{Name: "a\"b", Size: 3}, `a"b  (size and time not known)`, "file"},
		{workspace.Entry{Name: "\xff", Mode: fs.ModeDir}, `"\xff"/`, "directory"},
		{workspace.Entry{Name: "naïve 你好", Mode: fs.ModeDir}, "naïve 你好/", "directory"},
		{workspace.Entry{Name: "a\u202eb", Mode: fs.ModeDir}, `"a\u202eb"/`, "directory"},
	} {
		if got := c.e.Line(); got != c.line || c.e.Type() != c.kind {
			t.Errorf("%q, %s; want %q, %s", got, c.e.Type(), c.line, c.kind)
		}
	}
}
