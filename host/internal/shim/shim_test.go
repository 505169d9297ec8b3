package shim_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/shim"
	"toolhost.dev/host/internal/shim/wire"
)

func listen(t *testing.T) *shim.Server {
	t.Helper()
	dir := t.TempDir()
	s, err := shim.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// dial connects to the server as a shim does.
func dial(t *testing.T, s *shim.Server) *net.UnixConn {
	t.Helper()
	path := s.Address(0)
	if s.Inherit != nil {
		path = "/proc/self/fd/" + strings.TrimPrefix(s.Address(int(s.Inherit.Fd())), "fd:")
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// outcome reads the output and the exit status that a shim receives.
func outcome(t *testing.T, c net.Conn) (stdout, stderr string, status int) {
	t.Helper()
	var buf []byte
	for {
		k, b, err := wire.ReadFrame(c, &buf)
		if err != nil {
			return stdout, stderr, -1
		}
		switch k {
		case wire.Stdout:
			stdout += string(b)
		case wire.Stderr:
			stderr += string(b)
		case wire.Exit:
			return stdout, stderr, int(b[0])
		case wire.WantStdin, wire.Stdin:
		}
	}
}

func TestRequest(t *testing.T) {
	s := listen(t)
	token, revoke := s.Grant(context.Background(), func(_ context.Context, r wire.Request, st shim.Streams) int {
		_, _ = io.WriteString(st.Stdout, r.Name+"|"+r.Cwd+"|"+strings.Join(r.Args, "|"))
		_, _ = io.WriteString(st.Stdout, strings.Repeat("x", 3*wire.MaxFrame))
		_, _ = io.WriteString(st.Stderr, "oops")
		return 3
	})
	defer revoke()
	c := dial(t, s)
	if err := wire.WriteRequest(c, wire.Request{Token: token, Name: "tool:x", Cwd: "/d", Args: []string{"a b", "", "-ü\n"}}); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := outcome(t, c)
	if want := "tool:x|/d|a b||-ü\n" + strings.Repeat("x", 3*wire.MaxFrame); stdout != want || stderr != "oops" || status != 3 {
		t.Errorf("%.60q %q %d", stdout, stderr, status)
	}
}

func TestStandardInputIsTakenOnlyWhenRead(t *testing.T) {
	s := listen(t)
	read := false
	token, revoke := s.Grant(context.Background(), func(_ context.Context, _ wire.Request, st shim.Streams) int {
		if read {
			b, err := io.ReadAll(st.Stdin)
			if err != nil {
				return 9
			}
			_, _ = st.Stdout.Write(b)
		}
		return 0
	})
	defer revoke()
	for _, read = range []bool{false, true} {
		c := dial(t, s)
		if err := wire.WriteRequest(c, wire.Request{Token: token, Name: "tool:x"}); err != nil {
			t.Fatal(err)
		}
		var buf []byte
		k, _, err := wire.ReadFrame(c, &buf)
		if err != nil || (k == wire.WantStdin) != read {
			t.Fatalf("read %v: the first frame is %d, %v", read, k, err)
		}
		if !read {
			continue
		}
		for range 100 {
			if err := wire.WriteFrame(c, wire.Stdin, []byte(strings.Repeat("y", 1000))); err != nil {
				t.Fatal(err)
			}
		}
		if err := wire.WriteFrame(c, wire.Stdin, nil); err != nil {
			t.Fatal(err)
		}
		if stdout, _, status := outcome(t, c); stdout != strings.Repeat("y", 100_000) || status != 0 {
			t.Errorf("%d bytes, status %d", len(stdout), status)
		}
	}
}

// TestTheShimGoes checks that the handler's context is canceled when the shim disconnects.
func TestTheShimGoes(t *testing.T) {
	s := listen(t)
	begun, ended := make(chan struct{}), make(chan error, 1)
	token, revoke := s.Grant(context.Background(), func(ctx context.Context, _ wire.Request, st shim.Streams) int {
		close(begun)
		_, err := io.ReadAll(st.Stdin)
		<-ctx.Done()
		ended <- err
		return 0
	})
	defer revoke()
	c := dial(t, s)
	if err := wire.WriteRequest(c, wire.Request{Token: token, Name: "tool:x"}); err != nil {
		t.Fatal(err)
	}
	<-begun
	_ = c.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("standard input ended as if it were whole")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the handler was not told")
	}
}

// TestTheCallEnds checks that a call can end although its shim does not read its output. The token must then be
// invalid.
func TestTheCallEnds(t *testing.T) {
	s := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	begun := make(chan struct{})
	token, revoke := s.Grant(ctx, func(_ context.Context, _ wire.Request, st shim.Streams) int {
		close(begun)
		for {
			if _, err := st.Stdout.Write(make([]byte, wire.MaxFrame)); err != nil {
				return 0
			}
		}
	})
	c := dial(t, s)
	if err := wire.WriteRequest(c, wire.Request{Token: token, Name: "tool:x"}); err != nil {
		t.Fatal(err)
	}
	<-begun
	time.Sleep(20 * time.Millisecond) // long enough for the writer to block
	cancel()
	done := make(chan struct{})
	go func() { revoke(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the call does not end")
	}
	for _, token := range []string{token, "", "forged"} {
		c := dial(t, s)
		if err := wire.WriteRequest(c, wire.Request{Token: token, Name: "tool:x"}); err != nil {
			t.Fatal(err)
		}
		if _, stderr, status := outcome(t, c); status != shim.StatusCannotRun || !strings.Contains(stderr, "no call that is running") {
			t.Errorf("token %q: %q, status %d", token, stderr, status)
		}
	}
}

func TestHostileRequests(t *testing.T) {
	s := listen(t)
	for name, bytes := range map[string][]byte{
		"endless": {0xff, 0xff, 0xff, 0xff}, "short": {0, 0, 0, 3, 'a', 0, 'b'}, "none": nil, "cut": {0, 0, 0, 9, 'a'},
	} {
		c := dial(t, s)
		if _, err := c.Write(bytes); err != nil {
			t.Fatal(err)
		}
		_ = c.CloseWrite()
		if b, err := io.ReadAll(c); len(b) != 0 || err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if err := wire.WriteRequest(io.Discard, wire.Request{Args: []string{strings.Repeat("x", wire.MaxRequest)}}); !errors.Is(err, wire.ErrTooLong) {
		t.Error(err)
	}
}

// TestNothingIsLeft checks that the socket of a running server has no path, if the system supports sockets without a
// path.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	s, err := shim.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); s.Inherit != nil && len(left) != 0 {
		t.Errorf("left while it is served: %v", left)
	}
	s.Close()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestLink(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for _, binary := range []string{"/old", "/old", "/new"} {
		if err := shim.Link(dir, binary, []string{"tool:read", "field:x"}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"tool:read", "field:x"} {
			if to, err := os.Readlink(filepath.Join(dir, name)); to != binary {
				t.Errorf("%s leads to %s, %v", name, to, err)
			}
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("%v", left)
	}
	if err := shim.Link(dir, "/new", []string{"../out"}); err == nil {
		t.Error("a name with a slash is taken")
	}
}
