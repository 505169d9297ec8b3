package telemetry_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"toolhost.dev/host/internal/telemetry"
)

func TestEntries(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	l := telemetry.NewPluginLog(func() string { return dir }, slog.New(slog.DiscardHandler))
	l.Mask(func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") })
	r := telemetry.NewPluginLogReader(dir, "p")
	if got, err := r.Read(); len(got) > 0 || err != nil {
		t.Error(got, err)
	}
	l.Write(telemetry.PluginLogEntry{Plugin: "p", Level: "warn", Message: "pass hunter2\n\x1b[31m", Fields: map[string]string{"k": "hunter2"}})
	l.Write(telemetry.PluginLogEntry{Plugin: "../p", Message: "outside"})
	got, err := r.Read()
	if err != nil || len(got) != 1 || got[0].Message != "pass ***\n\x1b[31m" || got[0].Fields["k"] != "***" || got[0].Level != "warn" {
		t.Errorf("%+v %v", got, err)
	}
	// An incomplete line must be returned only when it is complete.
	f, err := os.OpenFile(telemetry.PluginLogPath(dir, "p"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range []string{`{"message":"ha`, "lf\"}\n{\"mess\n"} {
		if _, err := f.WriteString(part); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Read(); err != nil || len(got) != i {
			t.Errorf("%+v %v", got, err)
		}
	}
	if st, err := os.Stat(telemetry.PluginLogPath(dir, "p")); err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st.Mode(), err)
	}
	if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 1 {
		t.Errorf("%v", left)
	}
	l.Close()
	(*telemetry.PluginLog)(nil).Write(telemetry.PluginLogEntry{})
}

// TestRotation writes more than two full files from two hosts concurrently. A reader must miss no entry, and at most
// two files may remain.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	hosts := make([]*telemetry.PluginLog, 2)
	for i := range hosts {
		hosts[i] = telemetry.NewPluginLog(func() string { return dir }, slog.New(slog.DiscardHandler))
	}
	r := telemetry.NewPluginLogReader(dir, "p")
	seen := 0
	const rounds, batch = 12, 20
	for range rounds {
		var all sync.WaitGroup
		for i, l := range hosts {
			all.Go(func() {
				for range batch {
					l.Write(telemetry.PluginLogEntry{Plugin: "p", PID: i, Message: strings.Repeat("x", 32<<10)})
				}
			})
		}
		all.Wait()
		got, err := r.Read()
		if err != nil {
			t.Fatal(err)
		}
		seen += len(got)
	}
	if seen != 2*rounds*batch {
		t.Errorf("%d of %d entries", seen, 2*rounds*batch)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if st, err := f.Info(); err != nil || st.Size() > 6<<20 {
			t.Error(fmt.Sprint(f.Name(), " ", st.Size()), err)
		}
	}
	if got, err := telemetry.NewPluginLogReader(dir, "p").Read(); err != nil || len(got) < 100 {
		t.Error(len(got), err)
	}
}
