package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/internal/control"
)

func listen(t *testing.T, dir string, handle control.Handler) *control.Server {
	t.Helper()
	s, err := control.Listen(dir, handle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestAsk(t *testing.T) {
	for name, dir := range map[string]string{"short": filepath.Join(t.TempDir(), "c"), "long": filepath.Join(t.TempDir(), strings.Repeat("long/", 40))} {
		s := listen(t, dir, func(_ context.Context, op string, args json.RawMessage) (any, error) {
			if op != "twice" {
				return nil, errors.New("no such thing")
			}
			var n int
			err := json.Unmarshal(args, &n)
			return 2 * n, err
		})
		found := control.Sockets(dir)
		if len(found) != 1 || found[0].PID != os.Getpid() {
			t.Fatalf("%s: %v", name, found)
		}
		var n int
		if err := found[0].Ask(t.Context(), "twice", 21, &n); err != nil || n != 42 {
			t.Errorf("%s: %d %v", name, n, err)
		}
		if err := found[0].Ask(t.Context(), "thrice", 1, &n); err == nil || err.Error() != "no such thing" {
			t.Errorf("%s: %v", name, err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Fatal(entries, err)
		}
		if st, err := entries[0].Info(); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: the socket's mode is %v", name, st.Mode())
		}
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: the directory's mode is %v", name, st.Mode())
		}
		s.Close()
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("%s: %v is left", name, entries)
		}
	}
}

func TestStaleSocketsAreSwept(t *testing.T) {
	dir := t.TempDir()
	listen(t, dir, nil)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	own := entries[0].Name()
	stale := own[:strings.LastIndex(own, "-")] + "-999999999.sock"
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, stale), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if n := len(control.Sockets(dir)); n != 2 {
		t.Errorf("%d sockets", n)
	}
	_ = l.Close()
	if err := os.WriteFile(filepath.Join(dir, "other-1.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := len(control.Sockets(dir)); n != 1 {
		t.Errorf("%d sockets", n)
	}
	if _, err := os.Lstat(filepath.Join(dir, stale)); err == nil {
		t.Error("the stale socket is left")
	}
	if _, err := os.Lstat(filepath.Join(dir, "other-1.sock")); err != nil {
		t.Error("what is not ours was removed")
	}
}

// TestBadClients checks that a request is canceled when its client disconnects. An invalid request must get an error.
func TestBadClients(t *testing.T) {
	dir := t.TempDir()
	ended := make(chan struct{})
	listen(t, dir, func(ctx context.Context, op string, _ json.RawMessage) (any, error) {
		<-ctx.Done()
		if op == "wait" {
			close(ended)
		}
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	s := control.Sockets(dir)[0]
	go cancel()
	if err := s.Ask(ctx, "other", nil, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	conn, err := net.Dial("unix", filepath.Join(dir, mustOne(t, dir)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("nonsense\n")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 200)
	n, err := conn.Read(b)
	if err != nil || !strings.Contains(string(b[:n]), "the request is not valid") {
		t.Errorf("%q %v", b[:n], err)
	}
	again, err := net.Dial("unix", filepath.Join(dir, mustOne(t, dir)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Write([]byte("{\"op\":\"wait\"}\n")); err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	<-ended
}

func mustOne(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	return entries[0].Name()
}
