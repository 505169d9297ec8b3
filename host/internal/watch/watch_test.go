package watch_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"toolhost.dev/host/internal/watch"
)

func TestPlaces(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(dir, "v1", "bin"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "v1", "bin", "p"), nil, 0o600))
	must(t, os.Symlink("v1", filepath.Join(dir, "current")))
	must(t, os.Symlink(filepath.Join(dir, "current", "bin", "p"), filepath.Join(dir, "p")))
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	for path, want := range map[string][]string{
		"v1/bin/p":      {"v1/bin/p"},
		"current/bin/p": {"current", "v1/bin/p"},
		"p":             {"p", "current", "v1/bin/p"},
		"v1/none/p":     {"v1/none"},
		"current":       {"current", "v1"},
	} {
		var got []string
		for _, p := range watch.Places(filepath.Join(dir, path)) {
			rel, err := filepath.Rel(dir, p)
			must(t, err)
			got = append(got, rel)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if n := len(watch.Places(filepath.Join(dir, "loop"))); n == 0 || n > 50 {
		t.Errorf("a loop of links has %d places", n)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryWayToChange(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	put := func(name, text string) { must(t, os.WriteFile(at(name), []byte(text), 0o600)) }
	for _, v := range []string{"v1", "v2", "conf", "noise"} {
		must(t, os.Mkdir(at(v), 0o755))
	}
	put("v1/p", "1")
	put("v2/p", "2")
	put("q", "1")
	must(t, os.Symlink("v1", at("current")))
	changes := make(chan struct{}, 100)
	w, err := watch.New(slog.New(slog.DiscardHandler), func() { changes <- struct{}{} })
	must(t, err)
	defer w.Close()
	w.Set([]string{at("current/p"), at("q"), at("later/deep/r")}, []string{at("conf")})
	for i, way := range []func(){
		func() { put("q", "2") },
		func() { put("new", "3"); must(t, os.Rename(at("new"), at("q"))) },
		func() { must(t, os.Chmod(at("q"), 0o700)) },
		func() { must(t, os.Remove(at("q"))) },
		func() { put("q", "4") },
		func() { must(t, os.Symlink("v2", at("next"))); must(t, os.Rename(at("next"), at("current"))) },
		func() { put("v2/p", "3") }, // changes the new target of the symbolic link
		func() { put("conf/a.hcl", "") },
		func() { must(t, os.Remove(at("conf/a.hcl"))) },
		func() { must(t, os.RemoveAll(at("conf"))) },
		func() { must(t, os.Mkdir(at("conf"), 0o755)) },
		func() { put("conf/b.hcl", "") },
		func() { must(t, os.Mkdir(at("later"), 0o755)) },
		func() { must(t, os.Mkdir(at("later/deep"), 0o755)) },
		func() { put("later/deep/r", "") },
	} {
		way()
		select {
		case <-changes:
		case <-time.After(20 * time.Second):
			t.Fatalf("change %d was not noticed", i)
		}
	}
	for quiet := false; !quiet; { // the last change can cause two notifications
		select {
		case <-changes:
		case <-time.After(4 * watch.Quiet):
			quiet = true
		}
	}
	put("v1/p", "it is not reached any more")
	put("noise/x", "")
	put("other", "")
	select {
	case <-changes:
		t.Error("something else was taken for a change")
	case <-time.After(4 * watch.Quiet):
	}
}

// TestStepsAreOneChange checks that several writes to a file in a short time are reported once, after the last write.
func TestStepsAreOneChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	changes := make(chan string, 100)
	w, err := watch.New(slog.New(slog.DiscardHandler), func() {
		b, _ := os.ReadFile(file)
		changes <- string(b)
	})
	must(t, err)
	defer w.Close()
	w.Set([]string{file}, nil)
	f, err := os.Create(file)
	must(t, err)
	for i := range 9 {
		fmt.Fprint(f, i)
		time.Sleep(watch.Quiet / 10)
	}
	must(t, f.Close())
	select {
	case got := <-changes:
		if got != "012345678" && len(changes) == 0 {
			t.Errorf("it was told with %q", got) // if the machine paused during the writes, another report follows
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the change was not noticed")
	}
}
