package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServiceUnits checks the documented units with the systemd of Debian.
func TestServiceUnits(t *testing.T) {
	t.Parallel()
	analyze, libraries := debianProgram(t, "systemd-analyze")
	dir := t.TempDir()
	for _, name := range []string{"toolhost.service", "toolhost.socket"} {
		b, err := os.ReadFile(filepath.Join("../../../docs/service", name))
		must(t, err)
		text := strings.NewReplacer("/usr/local/bin/toolhost", filepath.Join(bin, "toolhost"), "User=toolhost\n", "").Replace(string(b))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	units := filepath.Join(filepath.Dir(analyze), "../../lib/systemd/system")
	c := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", filepath.Join(dir, "toolhost.service"))
	c.Env = append(os.Environ(), libraries, "SYSTEMD_UNIT_PATH="+dir+":"+units)
	out, err := c.CombinedOutput()
	if err != nil || strings.Contains(string(out), "toolhost.") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestServiceManagerIsNotified checks that a server reports when it is ready and when it stops, and that it logs as JSON with
// the time.
func TestServiceManagerIsNotified(t *testing.T) {
	t.Parallel()
	dir := mcpDir(t)
	runtime, err := os.MkdirTemp("", "th")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(runtime, "n"), Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	must(t, socket.SetReadDeadline(time.Now().Add(30*time.Second)))
	c := toolhost(t, dir, "serve", "--listen", "unix:"+filepath.Join(runtime, "s"), "--log-format", "json", "--log-level", "info")
	path := filepath.Join(runtime, "log")
	log, err := os.Create(path)
	must(t, err)
	t.Cleanup(func() { _ = log.Close() })
	c.Stderr, c.Env = log, append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(runtime, "n"))
	must(t, c.Start())
	message := make([]byte, 100)
	n, err := socket.Read(message)
	if err != nil || string(message[:n]) != "READY=1" {
		t.Errorf("%q, %v", message[:n], err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte("nonsense"), 0o600))
	must(t, c.Process.Signal(syscall.SIGHUP))
	eventually(t, "the log has the refusal, as JSON with the time", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), `{"time":"20`) && strings.Contains(string(text), `"msg":"the configuration is refused`)
	})
	must(t, c.Process.Signal(syscall.SIGTERM))
	n, err = socket.Read(message)
	if err != nil || string(message[:n]) != "STOPPING=1" {
		t.Errorf("%q, %v", message[:n], err)
	}
	must(t, c.Wait())
}
