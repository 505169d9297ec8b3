package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestServiceUnits checks the documented units with the systemd of Debian.
func TestServiceUnits(t *testing.T) {
	t.Parallel()
	analyze := hosttest.DebianProgram(t, "bin/systemd-analyze")
	dir := t.TempDir()
	for _, name := range []string{"toolhost.service", "toolhost.socket"} {
		b, err := os.ReadFile(filepath.Join("../../../../docs/service", name))
		hosttest.Must(t, err)
		text := strings.NewReplacer("/usr/local/bin/toolhost", filepath.Join(hosttest.Bin, "toolhost"), "User=toolhost\n", "").Replace(string(b))
		hosttest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	units := filepath.Join(filepath.Dir(analyze), "../../lib/systemd/system")
	c := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", filepath.Join(dir, "toolhost.service"))
	c.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":"+units)
	out, err := c.CombinedOutput()
	if err != nil || strings.Contains(string(out), "toolhost.") {
		t.Errorf("%v: %s", err, out)
	}
	// The tool rates the exposure of a service from 0, with all restrictions, to 10, without restrictions.
	c = exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--no-pager", "--threshold=45", filepath.Join(dir, "toolhost.service"))
	c.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":"+units)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// serviceManager is a systemd that runs as the first process of its own namespaces.
type serviceManager struct {
	t       *testing.T
	root    string // directory of the unpacked Debian packages
	pid     int
	console string // path of the log file
}

// startServiceManager starts systemd with the documented units. Only the port of the socket differs.
func startServiceManager(t *testing.T, address string) *serviceManager {
	t.Helper()
	analyze := hosttest.DebianProgram(t, "bin/systemd-analyze")
	if os.Getuid() != 0 {
		need.Missing(t, "only root can start a service manager of the system")
	}
	dir, err := os.MkdirTemp("", "th")
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &serviceManager{t: t, root: filepath.Dir(filepath.Dir(filepath.Dir(analyze))), console: filepath.Join(dir, "console")}
	units := filepath.Join(dir, "units")
	hosttest.Must(t, os.Chmod(dir, 0o755))
	hosttest.Must(t, os.MkdirAll(units, 0o755))
	write := func(name, text string) {
		t.Helper()
		hosttest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	for _, name := range []string{"toolhost.service", "toolhost.socket"} {
		b, err := os.ReadFile(filepath.Join("../../../../docs/service", name))
		hosttest.Must(t, err)
		write("units/"+name, strings.Replace(string(b), "127.0.0.1:7070", address, 1))
	}
	write("units/default.target", "[Unit]\nRequires=toolhost.socket\nAfter=toolhost.socket\n")
	for _, name := range []string{"basic", "sockets", "sysinit", "shutdown", "network"} {
		write("units/"+name+".target", "[Unit]\nDescription="+name+"\n")
	}
	copyRelease(t, filepath.Join(dir, "bin"))
	write("console", "")
	write("start", strings.NewReplacer("DIR", dir, "ROOT", m.root).Replace(`set -e
mount --make-rprivate /
mount -t proc proc /proc
cp -a /etc DIR/etc
echo 'toolhost:x:61235:61235::/nonexistent:/bin/sh' >>DIR/etc/passwd
echo 'toolhost:x:61235:' >>DIR/etc/group
mount --bind DIR/etc /etc
mount --bind DIR/bin /usr/local/bin
for d in /run /srv /var/lib; do mount -t tmpfs tmpfs $d; done
mkdir -p /srv/workspace
chown 61235 /srv/workspace
mount --bind DIR/console /dev/console
export SYSTEMD_UNIT_PATH=DIR/units container=test
exec ROOT/lib/systemd/systemd --system --unit=default.target --log-target=console
`))
	c := exec.CommandContext(t.Context(), "unshare", "--pid", "--mount", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child", "sh", filepath.Join(dir, "start"))
	c.Dir, c.SysProcAttr = "/", &syscall.SysProcAttr{Setsid: true}
	hosttest.Must(t, c.Start())
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(m.console) // ignore the error: the log is then empty
			t.Logf("the service manager: %s", log)
		}
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	hosttest.Wait(t, "the service manager runs", func() bool {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", c.Process.Pid))
		if err != nil {
			return false
		}
		m.pid, err = strconv.Atoi(strings.TrimSpace(string(children)))
		return err == nil && m.control("is-active", "toolhost.socket") == "active"
	})
	return m
}

// control runs systemctl and returns its output.
func (m *serviceManager) control(args ...string) string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	if args[0] != "restart" && args[0] != "stop" {
		cancel()
		// The timeout is short, because systemctl waits for a manager that does not answer yet.
		ctx, cancel = context.WithTimeout(m.t.Context(), 3*time.Second)
	}
	defer cancel()
	c := exec.CommandContext(ctx, "nsenter", append([]string{"-t", strconv.Itoa(m.pid), "-m", "-p", filepath.Join(m.root, "bin/systemctl"), "--no-pager"}, args...)...)
	c.WaitDelay = time.Second
	out, _ := c.CombinedOutput() // the caller checks the text
	return strings.TrimSpace(string(out))
}

// token returns the token in a file of the service. Only the service can read the file.
func (m *serviceManager) token(name string) string {
	m.t.Helper()
	path := filepath.Join("/proc", strconv.Itoa(m.pid), "root/var/lib/toolhost", name)
	st, err := os.Stat(path)
	hosttest.Must(m.t, err)
	b, err := os.ReadFile(path)
	hosttest.Must(m.t, err)
	if st.Mode().Perm() != 0o600 || len(b) < 20 {
		m.t.Errorf("%s has the mode %s and %d bytes", name, st.Mode(), len(b))
	}
	return strings.TrimSpace(string(b))
}

// TestServiceUnderSystemd checks the documented units under a real systemd. The first request must start the server,
// the sandbox of each plugin must be complete despite the hardening, a restart must refuse no call, also with the token
// from before, and a stop must be clean.
func TestServiceUnderSystemd(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	m := startServiceManager(t, address)
	if state := m.control("is-active", "toolhost.service"); state != "inactive" {
		t.Errorf("before the first request, the service is %s", state)
	}
	hosttest.NewClient(t, "http://"+address, "").Want(200, "ok", "GET", "/healthz", "")
	token, approver := m.token("token"), m.token("approver-token")
	hosttest.NewClient(t, "http://"+address, approver).Want(200, "[", "GET", "/v1/asks", "")
	c := hosttest.NewClient(t, "http://"+address, token)
	c.Want(200, `"output":"toolhost\n"`, "POST", "/v1/run", `{"command":"id -un; echo x > made.txt"}`)
	if state := m.control("is-active", "toolhost.service"); state != "active" {
		t.Errorf("after the first request, the service is %s", state)
	}
	_, body := c.Do("GET", "/v1/doctor", "")
	var doctor struct {
		Machine struct{ Namespaces, Seccomp bool }
		Plugins []struct{ Name, Backend string }
	}
	hosttest.Must(t, json.Unmarshal([]byte(body), &doctor))
	if !doctor.Machine.Namespaces || !doctor.Machine.Seccomp || len(doctor.Plugins) == 0 {
		t.Errorf("the unit weakens the sandbox: %s", body)
	}
	for _, p := range doctor.Plugins {
		if p.Backend != "ns" {
			t.Errorf("plugin %s has the backend %s", p.Name, p.Backend)
		}
	}
	c.Want(200, `"success":true`, "POST", "/v1/run", `{"command":"cat made.txt; sh -c 'ls /srv/workspace | wc -l'"}`)

	var calls sync.WaitGroup
	var stop atomic.Bool
	var done atomic.Int64
	for range 4 {
		calls.Go(func() {
			for !stop.Load() {
				c.Want(200, `"success":true`, "POST", "/v1/run", `{"command":"read made.txt"}`)
				done.Add(1)
			}
		})
	}
	before := m.control("show", "-p", "MainPID", "toolhost.service")
	if out := m.control("restart", "toolhost.service"); out != "" {
		t.Errorf("restart: %s", out)
	}
	at := done.Load()
	hosttest.Wait(t, "the restarted server answers", func() bool { return done.Load() > at+8 })
	stop.Store(true)
	calls.Wait()
	if after := m.control("show", "-p", "MainPID", "toolhost.service"); after == before {
		t.Errorf("the server was not restarted: %s", after)
	}
	if log, err := os.ReadFile(m.console); err != nil || strings.Contains(string(log), token) || strings.Contains(string(log), approver) {
		t.Errorf("the log has a token: %v", err)
	}
	if out := m.control("stop", "toolhost.socket", "toolhost.service"); out != "" {
		t.Errorf("stop: %s", out)
	}
	if result := m.control("show", "-p", "Result", "-p", "ExecMainStatus", "toolhost.service"); result != "Result=success\nExecMainStatus=0" && result != "ExecMainStatus=0\nResult=success" {
		t.Errorf("after the stop: %s", result)
	}
}

// TestServiceManagerIsNotified checks that a server reports when it is ready and when it stops, and that each line of
// its log is JSON with the time.
func TestServiceManagerIsNotified(t *testing.T) {
	t.Parallel()
	dir := hosttest.MCPDir(t)
	runtime, err := os.MkdirTemp("", "th")
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(runtime, "n"), Net: "unixgram"})
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	hosttest.Must(t, socket.SetReadDeadline(time.Now().Add(30*time.Second)))
	c := hosttest.Toolhost(t, dir, "serve", "--listen", "unix:"+filepath.Join(runtime, "s"), "--log-format", "json", "--log-level", "info")
	path := filepath.Join(runtime, "log")
	log, err := os.Create(path)
	hosttest.Must(t, err)
	t.Cleanup(func() { _ = log.Close() })
	c.Stderr, c.Env = log, append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(runtime, "n"))
	hosttest.Must(t, c.Start())
	message := make([]byte, 100)
	n, err := socket.Read(message)
	if err != nil || string(message[:n]) != "READY=1" {
		t.Errorf("%q, %v", message[:n], err)
	}
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte("nonsense"), 0o600))
	hosttest.Must(t, c.Process.Signal(syscall.SIGHUP))
	hosttest.Wait(t, "the log has the refusal, as JSON with the time", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), `{"time":"20`) && strings.Contains(string(text), `"msg":"the configuration is refused`)
	})
	hosttest.Must(t, c.Process.Signal(syscall.SIGTERM))
	n, err = socket.Read(message)
	if err != nil || string(message[:n]) != "STOPPING=1" {
		t.Errorf("%q, %v", message[:n], err)
	}
	hosttest.Must(t, c.Wait())
	text, err := os.ReadFile(path)
	hosttest.Must(t, err)
	for line := range strings.Lines(string(text)) {
		if entry := map[string]any{}; json.Unmarshal([]byte(line), &entry) != nil || entry["time"] == nil || entry["msg"] == nil {
			t.Errorf("a line that is no entry: %s", line)
		}
	}
	if !strings.Contains(string(text), `"msg":"listening on `) {
		t.Errorf("the log has no address: %s", text)
	}
}
