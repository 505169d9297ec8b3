// Package coordinator runs the coordinator of a node, which is a process of its own. [Process.Take] starts it, and
// [Process.Keep] starts it again when it has ended.
package coordinator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is the coordinator of a node. It continues after the process that started it has ended, so that a restart of
// the host does not stop the fleet. The fields must not change after the first call of a method. The methods are safe
// for concurrent use.
type Process struct {
	// Program is the path of toolhost-coordinator.
	Program string
	// Identity is the directory with the key and the certificates of the node.
	Identity string
	Log      *slog.Logger

	work    sync.Mutex // held while the program is started or stopped
	mu      sync.Mutex
	role    *Role // nil means that the node has no coordinator
	problem error // why the coordinator does not run
}

// Role describes the role of a coordinator among all coordinators of a fleet.
type Role struct {
	// Address is where nodes reach the coordinator, and All contains the addresses of all coordinators.
	Address string
	All     []string
	// Server is the name of the coordinator for the other coordinators. An empty name means the name of the node.
	Server string
	// Await makes the coordinator refuse nodes until the others have the records of the fleet.
	Await bool
	// Convert permits the coordinator to convert its store from a single coordinator to several, or back.
	Convert bool
}

// several reports whether the coordinator is one of several.
func (r *Role) several() bool { return len(r.All) > 1 }

// store returns the directory of the records.
func (p *Process) store() string { return filepath.Join(p.Identity, "coordinator") }

// output returns the file with what the coordinator printed.
func (p *Process) output() string { return filepath.Join(p.Identity, "coordinator.out") }

// Take sets the role of the coordinator, and starts it. It restarts a running coordinator only if a single coordinator
// becomes one of several, or the other way around, or if an earlier change that was given up left it here. A nil role
// stops the coordinator.
func (p *Process) Take(role *Role) error {
	p.work.Lock()
	defer p.work.Unlock()
	p.mu.Lock()
	p.role = role
	p.mu.Unlock()
	var err error
	stale := p.isStale(role)
	if p.runs() && (role == nil || stale || role.several() != p.isClustered()) {
		err = p.stop()
	}
	if err == nil && stale {
		err = p.discard()
	}
	if err == nil && role != nil && !p.runs() {
		err = p.start(role)
	}
	p.setProblem(err)
	return err
}

// Role returns the role of the coordinator, or nil.
func (p *Process) Role() *Role {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.role
}

// Discard removes the store of a coordinator that has no role any more.
func (p *Process) Discard() error {
	p.work.Lock()
	defer p.work.Unlock()
	if p.Role() != nil || p.runs() {
		return errors.New("the coordinator of this node runs, so its store is kept")
	}
	return p.discard()
}

// discard removes the store. It first renames the store, because a coordinator must not use a part of one.
func (p *Process) discard() error {
	old := p.store() + ".discarded"
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	if err := os.Rename(p.store(), old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(old)
}

// named returns the file with the name of the coordinator that has the store.
func (p *Process) named() string { return filepath.Join(p.store(), "server") }

// isStale reports whether the store belongs to a coordinator that an earlier change added under another name. This
// happens if the change was given up and this node was not told before the next change. Only a coordinator that is
// being added can be stale: the others have no records under its name, and wait for the new name.
func (p *Process) isStale(role *Role) bool {
	if role == nil || !role.Await {
		return false
	}
	name, err := os.ReadFile(p.named())
	return err == nil && strings.TrimSpace(string(name)) != role.Server
}

// mark writes the name of the coordinator into its store.
func (p *Process) mark(role *Role) error {
	if name, err := os.ReadFile(p.named()); err == nil && strings.TrimSpace(string(name)) == role.Server {
		return nil // also on a full disk
	}
	if err := os.MkdirAll(p.store(), 0o700); err != nil {
		return err
	}
	return os.WriteFile(p.named(), []byte(role.Server+"\n"), 0o600)
}

// isClustered reports whether the store belongs to one of several coordinators. Only such a store has a log of the
// group.
func (p *Process) isClustered() bool {
	_, err := os.Stat(filepath.Join(p.store(), "jetstream", "$SYS", "_js_", "_meta_"))
	return err == nil
}

// stopPatience is the time after which a coordinator that does not end is killed. While a single coordinator restarts,
// no node can renew its lease, so the stop and the start must take less than the shortest lease. A kill loses nothing,
// because the coordinator syncs each record.
const stopPatience = 3 * time.Second

// stop ends the coordinator, whose process id is in its lock.
func (p *Process) stop() error {
	b, err := os.ReadFile(filepath.Join(p.store(), "lock"))
	if err != nil {
		return fmt.Errorf("the coordinator of this node cannot be stopped: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 1 {
		return fmt.Errorf("the coordinator of this node cannot be stopped, because its lock %s does not contain its process id. Stop it by hand", filepath.Join(p.store(), "lock"))
	}
	signal := syscall.SIGTERM
	for began := time.Now(); p.runs(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > stopPatience {
			if signal == syscall.SIGKILL {
				return fmt.Errorf("the coordinator of this node, process %d, does not end", pid)
			}
			p.Log.Warn("the coordinator of this node does not end, and is killed", "pid", pid)
			signal, began = syscall.SIGKILL, time.Now()
		}
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("the coordinator of this node, process %d, cannot be stopped: %w", pid, err)
		}
	}
	return nil
}

// runs reports whether a coordinator has the store. A coordinator holds a lock of the store while it runs, also while
// its process is stopped.
func (p *Process) runs() bool {
	f, err := os.Open(filepath.Join(p.store(), "lock"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close() //nolint:errcheck // only read
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

func (p *Process) setProblem(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problem = err
}

// Problem returns the reason why the coordinator does not run, or nil.
func (p *Process) Problem() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problem
}

// Intervals of [Process.Keep].
const (
	lookEvery = time.Second
	maxPause  = 10 * time.Second
)

// Keep starts the coordinator again each time it has ended, until ctx ends.
func (p *Process) Keep(ctx context.Context) {
	pause := lookEvery
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if p.work.TryLock() { // if this fails, the coordinator is being started or stopped now
			pause = p.again()
			p.work.Unlock()
		}
	}
}

// again starts the coordinator if it has ended. It returns the time after which to look again.
func (p *Process) again() (pause time.Duration) {
	role := p.Role()
	if role == nil || p.runs() {
		p.setProblem(nil)
		return lookEvery
	}
	before := p.Problem()
	if before == nil {
		p.Log.Error("the coordinator of this node has ended, and is started again", "it said", p.said())
	}
	err := p.start(role)
	p.setProblem(err)
	if err == nil {
		return lookEvery
	}
	if before == nil || before.Error() != err.Error() {
		p.Log.Error("the coordinator of this node cannot be started, and is tried again", "why", err)
	}
	return maxPause
}

// said returns the last lines that the coordinator printed.
func (p *Process) said() string {
	b, _ := os.ReadFile(p.output()) // the error is ignored: without the file, nothing was printed
	text := strings.TrimSpace(string(b[max(0, len(b)-2000):]))
	return strings.TrimPrefix(text, "toolhost-coordinator: ")
}

// arguments returns the arguments of the program.
func (p *Process) arguments(r *Role) []string {
	name, port, _ := net.SplitHostPort(r.Address)
	args := []string{"--identity", p.Identity, "--store", p.store(), "--listen", net.JoinHostPort(bindable(name), port),
		"--advertise", r.Address}
	if r.several() {
		var routes []string
		for _, a := range r.All {
			routes = append(routes, ClusterAddress(a))
		}
		host, cport, _ := net.SplitHostPort(ClusterAddress(r.Address))
		args = append(args, "--cluster", net.JoinHostPort(bindable(host), cport), "--routes", strings.Join(routes, ","))
	}
	if r.Server != "" {
		args = append(args, "--name", r.Server)
	}
	if r.Await {
		args = append(args, "--await")
	}
	if r.Convert {
		args = append(args, "--convert")
	}
	return args
}

// startPatience is the time that a coordinator has to answer after its start.
const startPatience = 15 * time.Second

func (p *Process) start(role *Role) error {
	if _, err := os.Stat(p.Program); err != nil {
		return fmt.Errorf("this node is a coordinator, and %s is missing. Install it beside toolhost, or name an external NATS cluster:\nfleet {\n  nats { urls = [\"nats://HOST:4222\"] }\n}", p.Program)
	}
	if err := p.mark(role); err != nil {
		return err
	}
	out, err := os.OpenFile(p.output(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()                                  //nolint:errcheck // the coordinator has it
	c := exec.Command(p.Program, p.arguments(role)...) //nolint:gosec // a program of toolhost
	c.Stdout, c.Stderr, c.Dir = out, out, "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return fmt.Errorf("the coordinator cannot be started: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for end := time.Now().Add(startPatience); time.Now().Before(end); {
		select {
		case err := <-ended:
			if why := p.said(); why != "" {
				return fmt.Errorf("the coordinator ended at once: %s", why)
			}
			return fmt.Errorf("the coordinator ended at once: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
		if p.runs() && answers(role) {
			p.Log.Info("the coordinator runs", "address", role.Address, "pid", c.Process.Pid)
			return nil
		}
	}
	return fmt.Errorf("the coordinator does not answer on %s after %s. See %s", role.Address, startPatience, filepath.Join(p.store(), "coordinator.log"))
}

// answers reports whether the coordinator of a role answers at its address. Another program can have the address, so
// the answer must contain the name of the coordinator: a server sends "INFO" and a JSON object to each new connection
// (https://docs.nats.io/reference/reference-protocols/nats-protocol#info).
func answers(role *Role) bool {
	conn, err := net.DialTimeout("tcp", role.Address, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close() //nolint:errcheck // only read
	if conn.SetReadDeadline(time.Now().Add(2*time.Second)) != nil {
		return false
	}
	line, err := bufio.NewReader(io.LimitReader(conn, 64<<10)).ReadString('\n')
	text, ok := strings.CutPrefix(line, "INFO ")
	var info struct {
		Name string `json:"server_name"`
	}
	if err != nil || !ok || json.Unmarshal([]byte(text), &info) != nil {
		return false
	}
	return role.Server == "" || info.Name == role.Server
}

// bindable returns the host part for an address to listen on. A name that is not one of this machine's addresses cannot
// be bound, so a name means all addresses.
func bindable(name string) string {
	if ip := net.ParseIP(name); ip != nil {
		return name
	}
	if name == "localhost" {
		return "127.0.0.1"
	}
	return "0.0.0.0"
}
