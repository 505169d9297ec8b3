package editor_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"

	"toolhost.dev/plugins/edit/editor"
)

// BenchmarkEdit1MB measures a whole call without the RPC: reading, matching, writing, history and diff. Each iteration
// also writes the same bytes durably, for comparison. The metric "disk-µs" is the median time of this write. The metric
// "less-µs" is the median time of the call minus disk-µs.
func BenchmarkEdit1MB(b *testing.B) {
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	h := tooltest.New(b, editor.Plugin(), dir)
	if bad := h.Configure(tool.Configuration{StateDir: b.TempDir()}); len(bad) > 0 {
		b.Fatal(bad)
	}
	var lines strings.Builder
	for i := range 18_000 {
		fmt.Fprintf(&lines, "\tif value%d := compute(%d, 0, \"name\"); value%d > limit {\n", i, i*7, i)
	}
	text := []byte(lines.String())
	if res := h.Call("write", args{"file_path": "f.go", "content": string(text)}); !res.Success() {
		b.Fatal(res.Error)
	}
	var calls, disk []time.Duration
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		began := time.Now()
		if err := lastingWrite(filepath.Join(dir, "beside"), text); err != nil {
			b.Fatal(err)
		}
		disk = append(disk, time.Since(began))
		began = time.Now()
		b.StartTimer()
		res := h.Call("edit", args{"file_path": "f.go", "old_string": fmt.Sprintf("compute(63000, %d", i), "new_string": fmt.Sprintf("compute(63000, %d", i+1)})
		calls = append(calls, time.Since(began))
		if !res.Success() {
			b.Fatal(res.Error)
		}
	}
	b.ReportMetric(float64(median(disk).Microseconds()), "disk-µs")
	b.ReportMetric(float64((median(calls) - median(disk)).Microseconds()), "less-µs")
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// lastingWrite replaces a file durably. It writes and syncs a new file, renames it, and syncs the directory.
func lastingWrite(path string, text []byte) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	dir, openErr := os.Open(filepath.Dir(path))
	if err = errors.Join(err, f.Sync(), f.Close(), os.Rename(path+".new", path), openErr); err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
