package depot

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolhost.dev/host/fleet/internal/testnats"
	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/host/internal/reload"
	"toolhost.dev/host/internal/trust"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newDepot returns a depot on a server of its own.
func newDepot(t *testing.T) *Depot {
	t.Helper()
	conn, err := nats.Connect(testnats.Server(t, nil).ClientURL())
	must(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	must(t, err)
	objects, err := js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "depot"})
	must(t, err)
	return &Depot{Objects: objects, Log: slog.New(slog.DiscardHandler)}
}

// machine makes the test use the plugin store of another machine.
func machine(t *testing.T) *artifact.Store {
	t.Helper()
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	s, err := artifact.OpenStore()
	must(t, err)
	return s
}

// layer packs a plugin whose program has the given text.
func layer(t *testing.T, text string) (packed []byte, is *artifact.Packed) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "tool"), []byte(text), 0o700))
	var b bytes.Buffer
	is, err := artifact.Pack(&b, dir, "tool")
	must(t, err)
	return b.Bytes(), is
}

// add installs a packed plugin.
func add(t *testing.T, to *artifact.Store, packed []byte, content string) {
	t.Helper()
	dir, release, err := to.Temporary()
	must(t, err)
	defer release()
	_, _, err = artifact.Unpack(bytes.NewReader(packed), dir, "tool")
	must(t, err)
	must(t, to.Publish(dir, content))
}

// filesWith returns a configuration whose lock file pins a plugin.
func filesWith(t *testing.T, is *artifact.Packed) *reload.SharedFiles {
	t.Helper()
	digest := "sha256:" + strings.Repeat("0", 64)
	lock, err := json.Marshal(trust.Lock{Version: 2, Plugins: map[string]trust.Pin{"tool": {
		Source: "registry.example/tool", Index: digest, Unsigned: true, Version: "1.0.0",
		Platforms: map[string]trust.Platform{trust.ThisPlatform(): {Manifest: digest, Content: is.Content, Entry: is.Entry}},
	}}})
	must(t, err)
	return &reload.SharedFiles{Text: []byte("# a configuration\n"), Lock: lock}
}

// TestFetch checks that another machine gets the configuration together with its plugin.
func TestFetch(t *testing.T) {
	d := newDepot(t)
	packed, is := layer(t, "#!/bin/sh\n")
	files := filesWith(t, is)
	add(t, machine(t), packed, is.Content)
	name, err := d.Store(t.Context(), files)
	must(t, err)

	other := machine(t)
	got, err := d.Fetch(t.Context(), name)
	must(t, err)
	if string(got.Text) != string(files.Text) || string(got.Lock) != string(files.Lock) {
		t.Errorf("the fetched files are %q and %q", got.Text, got.Lock)
	}
	if b, err := os.ReadFile(filepath.Join(other.Dir(is.Content), "tool")); err != nil || string(b) != "#!/bin/sh\n" {
		t.Errorf("the fetched program is %q, %v", b, err)
	}
}

// TestFetchRefuses checks that a node uses no object that another node or the operator of NATS replaced.
func TestFetchRefuses(t *testing.T) {
	packed, is := layer(t, "#!/bin/sh\n")
	evil, _ := layer(t, "#!/bin/sh\nevil\n")
	files := filesWith(t, is)
	evilFiles, err := json.Marshal(reload.SharedFiles{Text: []byte("# evil\n")})
	must(t, err)
	for what, c := range map[string]struct {
		object func(name string) string
		put    []byte
		want   string
	}{
		"another program":       {func(string) string { return pluginObject + is.Content }, evil, "is locked"},
		"half of a program":     {func(string) string { return pluginObject + is.Content }, packed[:len(packed)/2], "cannot be unpacked"},
		"no archive":            {func(string) string { return pluginObject + is.Content }, []byte("evil"), "cannot be"},
		"another configuration": {func(name string) string { return name }, evilFiles, "does not match its hash"},
	} {
		t.Run(what, func(t *testing.T) {
			d := newDepot(t)
			add(t, machine(t), packed, is.Content)
			name, err := d.Store(t.Context(), files)
			must(t, err)
			_, err = d.Objects.Put(t.Context(), jetstream.ObjectMeta{Name: c.object(name)}, bytes.NewReader(c.put))
			must(t, err)

			other := machine(t)
			if got, err := d.Fetch(t.Context(), name); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Fetch returns %+v, %v; want an error with %q", got, err, c.want)
			}
			if all, err := other.Contents(); err != nil || len(all) > 0 {
				t.Errorf("the store has %v, %v", all, err)
			}
		})
	}
}

// TestFetchWithoutPlugin checks the error if no node gave a plugin to the fleet, and that an installed plugin suffices.
func TestFetchWithoutPlugin(t *testing.T) {
	d := newDepot(t)
	packed, is := layer(t, "#!/bin/sh\n")
	machine(t)
	name, err := d.Store(t.Context(), filesWith(t, is))
	must(t, err)
	if _, err := d.Fetch(t.Context(), name); err == nil || !strings.Contains(err.Error(), "has given the plugin to the fleet") {
		t.Errorf("Fetch returns %v", err)
	}
	add(t, machine(t), packed, is.Content)
	if _, err := d.Fetch(t.Context(), name); err != nil {
		t.Error(err)
	}
}

// TestKeep checks that Keep removes all objects but those of the given configurations.
func TestKeep(t *testing.T) {
	d := newDepot(t)
	here := machine(t)
	var names []string
	for _, text := range []string{"#!/bin/sh\n# 1\n", "#!/bin/sh\n# 2\n"} {
		packed, is := layer(t, text)
		add(t, here, packed, is.Content)
		name, err := d.Store(t.Context(), filesWith(t, is))
		must(t, err)
		names = append(names, name)
	}
	d.Keep(t.Context(), names[1])
	machine(t)
	if _, err := d.Fetch(t.Context(), names[1]); err != nil {
		t.Errorf("the needed configuration: %v", err)
	}
	all, err := d.Objects.List(t.Context())
	must(t, err)
	if len(all) != 2 {
		t.Errorf("%d objects remain, want the configuration and its plugin", len(all))
	}
	d.Keep(t.Context(), "config/missing", "")
	if after, err := d.Objects.List(t.Context()); err != nil || len(after) != 2 {
		t.Errorf("after a failed Keep, %d objects remain, %v", len(after), err)
	}
	if err := d.get(t.Context(), names[0], func(io.Reader) error { return nil }); err == nil {
		t.Error("the configuration that is not needed remains")
	}
}
