package coordinator

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/host"
)

// stubbornEnv makes this program act as a coordinator that ignores SIGTERM.
const stubbornEnv = "TOOLHOST_TEST_STUBBORN"

func TestMain(m *testing.M) {
	if os.Getenv(stubbornEnv) != "" {
		stubborn()
	}
	os.Exit(m.Run())
}

// stubborn holds the lock of its store and listens, as a coordinator does.
func stubborn() {
	signal.Ignore(syscall.SIGTERM)
	f := flag.NewFlagSet("stubborn", flag.ExitOnError)
	store, listen := f.String("store", "", ""), f.String("listen", "", "")
	name := f.String("name", "", "")
	for _, other := range []string{"identity", "advertise", "cluster", "routes"} {
		f.String(other, "", "")
	}
	f.Bool("await", false, "")
	_ = f.Parse(os.Args[1:])
	l, err := net.Listen("tcp", *listen)
	if err == nil {
		err = os.MkdirAll(*store, 0o700)
	}
	if err == nil {
		var lock *os.File
		if lock, err = os.Create(filepath.Join(*store, "lock")); err == nil {
			err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
			_, _ = fmt.Fprintln(lock, os.Getpid())
		}
	}
	if err != nil {
		time.Sleep(200 * time.Millisecond) // a real one takes as long
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	time.AfterFunc(time.Minute, func() { os.Exit(1) }) // the test may have died
	for {
		if c, err := l.Accept(); err == nil {
			_, _ = fmt.Fprintf(c, "INFO {\"server_name\":%q}\r\n", *name)
			_ = c.Close()
		}
	}
}

// TestStubbornCoordinator checks that a coordinator that does not end is killed before the shortest lease of a fleet
// with several coordinators has passed.
func TestStubbornCoordinator(t *testing.T) {
	var log strings.Builder
	p, address := stubbornProcess(t, &log)
	if err := p.Take(&Role{Address: address, All: []string{address}}); err != nil {
		t.Fatal(err)
	}
	if !p.runs() {
		t.Fatal("the coordinator does not run, so the test proves nothing")
	}
	if err := p.Take(nil); err != nil {
		t.Fatal(err)
	}
	if p.runs() {
		t.Error("the coordinator runs on")
	}
	if !strings.Contains(log.String(), "does not end, and is killed") {
		t.Errorf("the log does not say why: %s", log.String())
	}
	// The rest of the lease is for the start.
	if want := 4 * stopPatience; want > host.MinFleetLease {
		t.Errorf("a stop can take %s, which is too much of a lease of %s", stopPatience, host.MinFleetLease)
	}
}

// stubbornProcess returns a coordinator that ignores SIGTERM, and a free address for it.
func stubbornProcess(t *testing.T, log io.Writer) (p *Process, address string) {
	t.Helper()
	t.Setenv(stubbornEnv, "1")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return &Process{Program: os.Args[0], Identity: t.TempDir(), Log: slog.New(slog.NewTextHandler(log, nil))}, l.Addr().String()
}

// TestForeignServer checks that a coordinator does not count as started because another program listens at its address.
func TestForeignServer(t *testing.T) {
	p, address := stubbornProcess(t, io.Discard)
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprint(c, "INFO {\"server_name\":\"other\"}\r\n")
			_ = c.Close()
		}
	}()
	// The program has its lock for a moment before it notices that the address is used.
	if err := os.MkdirAll(p.store(), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(p.store(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	err = p.start(&Role{Address: address, All: []string{address}, Server: "b-18"})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("the error is %v", err)
	}
}

// TestStaleCoordinator checks that a coordinator of a change that was given up does not become that of the next change.
// The two have different names, and the other coordinators wait for the new one.
func TestStaleCoordinator(t *testing.T) {
	p, address := stubbornProcess(t, io.Discard)
	all := []string{address, "127.0.0.1:1", "127.0.0.1:2"}
	take := func(r *Role) (pid string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(p.store(), "jetstream", "$SYS", "_js_", "_meta_"), 0o700); err != nil && r != nil {
			t.Fatal(err)
		}
		if err := p.Take(r); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(p.store(), "lock"))
		if err != nil && r != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	t.Cleanup(func() { take(nil) })
	record := filepath.Join(p.store(), "record")
	first := take(&Role{Address: address, All: all, Server: "b-18", Await: true})
	if err := os.WriteFile(record, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if again := take(&Role{Address: address, All: all, Server: "b-18", Await: true}); again != first {
		t.Error("a coordinator was restarted although its name is the same")
	}
	second := take(&Role{Address: address, All: all, Server: "b-20", Await: true})
	if second == first {
		t.Error("the coordinator of the earlier change still runs")
	}
	if _, err := os.Stat(record); !os.IsNotExist(err) {
		t.Errorf("the records of the earlier change remain: %v", err)
	}
	if err := os.WriteFile(record, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if third := take(&Role{Address: address, All: all, Server: "b-20"}); third != second {
		t.Error("a coordinator was restarted when the change had ended")
	}
	take(nil)
	take(&Role{Address: address, All: all, Server: "other"})
	if _, err := os.Stat(record); err != nil {
		t.Errorf("a coordinator that is not being added lost its records: %v", err)
	}
}
