package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host"
	"toolhost.dev/host/fleet"
)

const (
	fleetToken    = "fleet-bench"
	fleetLease    = 2 * time.Second
	fleetCallers  = 64
	fleetSessions = 64
	slowBytes     = 200_000_000
	slowRate      = 20_000_000 // bytes a second
	maxHeld       = 48 << 20   // maximum growth of each process during the slow read, in bytes
)

// fleets compares calls that a node forwards to the owner of a session with calls that the owner receives directly. It
// also measures the time of a takeover, and the effect of a slow reader on the nodes.
func fleets(ctx context.Context, bin string) error {
	b, err := newFleetBench(ctx, bin)
	if err != nil {
		return err
	}
	defer b.close()
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush() //nolint:errcheck // the terminal
	for _, measure := range []func(context.Context, io.Writer) error{b.forwarding, b.journaling, b.slowReader, b.takeovers, b.lookups} {
		if err := measure(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

// fleetBench is a fleet of two nodes on this machine, with a coordinator and a shared workspace.
type fleetBench struct {
	bin, dir, workspace, config string
	owner, gateway              *fleetMember
	web                         *http.Client
	sessions                    []string // sessions that the first node owns
}

// fleetMember is a node of the measured fleet.
type fleetMember struct {
	b            *fleetBench
	name, listen string
	cmd          *exec.Cmd
	url          string
	token        string // join token that the node printed when it began a new fleet
	said         bytes.Buffer
}

func newFleetBench(ctx context.Context, bin string) (*fleetBench, error) {
	dir, err := sample()
	if err != nil {
		return nil, err
	}
	b := &fleetBench{bin: bin, dir: filepath.Dir(dir), workspace: dir, web: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * fleetCallers}}}
	b.config = filepath.Join(b.dir, "fleet.hcl")
	err = os.WriteFile(b.config, fmt.Appendf(nil, "fleet {\n  lease = %q\n  workspace \"repo\" {\n    path = %q\n    shared = \"bench\"\n  }\n}\nplugin \"flood\" {\n  path = %q\n}\n", fleetLease, dir, filepath.Join(bin, "bench", "flood")), 0o600)
	if err == nil {
		b.owner, err = b.start(ctx, "owner")
	}
	if err == nil {
		b.gateway, err = b.start(ctx, "gateway", "--fleet-token-file", b.tokenFile(), "join", b.owner.listen)
	}
	for i := 0; err == nil && len(b.sessions) < fleetSessions; i++ {
		session, node := "s"+strconv.Itoa(i), ""
		if node, err = b.owner.ask(ctx, session, "read "+sampleFile); node == "owner" {
			b.sessions = append(b.sessions, session)
		}
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *fleetBench) tokenFile() string {
	file := filepath.Join(b.dir, "token")
	if b.owner.token != "" {
		_ = os.WriteFile(file, []byte(b.owner.token), 0o600) // ignore the error: without this file, the next node does not start
	}
	return file
}

// start starts a node.
func (b *fleetBench) start(ctx context.Context, name string, join ...string) (*fleetMember, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &fleetMember{b: b, name: name, listen: l.Addr().String()}
	_ = l.Close()
	return m, m.run(ctx, join...)
}

func (m *fleetMember) run(ctx context.Context, join ...string) error {
	args := append(m.arguments("serve", "--fleet", "--fleet-node", m.name, "--fleet-listen", m.listen, "--listen", "127.0.0.1:0"), join...)
	m.cmd = exec.CommandContext(ctx, filepath.Join(m.b.bin, "toolhost"), args...) //nolint:gosec // built here
	m.cmd.Env = append(os.Environ(), "TOOLHOST_TOKEN="+fleetToken)
	messages, err := m.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	ready := make(chan string, 1)
	go func() {
		defer close(ready)
		for lines := bufio.NewScanner(messages); lines.Scan(); {
			m.said.WriteString(lines.Text() + "\n")
			if i := strings.Index(lines.Text(), "thfleet1."); i >= 0 {
				m.token = lines.Text()[i:]
			}
			if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
				ready <- url
				break
			}
		}
		_, _ = io.Copy(io.Discard, messages) // nobody reads further messages
	}()
	var ok bool
	if m.url, ok = <-ready; !ok {
		return fmt.Errorf("the node %s ended:\n%s", m.name, m.said.String())
	}
	return nil
}

func (m *fleetMember) arguments(args ...string) []string {
	return append([]string{"--config", m.b.config, "--workspace", m.b.workspace, "--state", filepath.Join(m.b.dir, m.name)}, args...)
}

// ask runs a command through the node, and returns the node that ran it.
func (m *fleetMember) ask(ctx context.Context, session, command string) (node string, err error) {
	body, err := json.Marshal(map[string]string{"workspace": "repo", "session": session, "command": command})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/v1/run", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+fleetToken)
	res, err := m.b.web.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	if !bytes.Contains(answer, []byte(`"success":true`)) {
		return "", fmt.Errorf("%q through %s: %s", command, m.name, answer)
	}
	_, rest, _ := bytes.Cut(answer, []byte(`"node":"`))
	name, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(name), nil
}

func (m *fleetMember) kill() {
	if m == nil || m.cmd == nil || m.cmd.Process == nil {
		return
	}
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait() // ignore the error: the process was killed
}

func (b *fleetBench) close() {
	b.owner.kill()
	b.gateway.kill()
	// The file contains the process id of the coordinator. If it does not exist, no coordinator is running.
	lock, _ := os.ReadFile(filepath.Join(b.dir, "owner", "fleet", "coordinator", "lock"))
	if pid, err := strconv.Atoi(strings.TrimSpace(string(lock))); err == nil && pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = os.RemoveAll(b.dir)
}

// calls returns a function that makes a call through a node. Each call uses the next session.
func (b *fleetBench) calls(ctx context.Context, m *fleetMember, command string) call {
	var n atomic.Int64
	return func() error {
		_, err := m.ask(ctx, b.sessions[int(n.Add(1))%len(b.sessions)], command)
		return err
	}
}

// forwarding compares the time of a read at the owner with the time of a forwarded read, for one caller and for many
// callers.
func (b *fleetBench) forwarding(ctx context.Context, out io.Writer) error {
	local, forwarded := b.calls(ctx, b.owner, "read "+sampleFile), b.calls(ctx, b.gateway, "read "+sampleFile)
	d, err := contest(20, 50, local, forwarded)
	if err != nil {
		return err
	}
	l, f := median(d[0]), median(d[1])
	fmt.Fprintf(out, "forwarded read, p50\t%s\tlocal %s\tratio %.2f\tat most 2.50\t%s\n", micros(f), micros(l), ratio(f, l), verdict(ratio(f, l) <= 2.5))
	r, err := rates(fleetCallers, 5, time.Second, local, forwarded)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "forwarded reads, %d callers\t%.0f a second\tlocal %.0f\tratio %.2f\tat least 0.50\t%s\n", fleetCallers, r[1], r[0], r[1]/r[0], verdict(r[1] >= r[0]/2))
	return nil
}

// journaling measures the cost of the journal. For a call that can change files, two records are written to the journal
// and synced.
func (b *fleetBench) journaling(ctx context.Context, out io.Writer) error {
	d, err := contest(10, 20, b.calls(ctx, b.owner, "true"), b.calls(ctx, b.owner, "read "+sampleFile))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "native command with its two records, p50\t%s\tread without records %s\t\t\t\n", micros(median(d[0])), micros(median(d[1])))
	return nil
}

// slowClient reads output at a limited rate.
type slowClient struct {
	began time.Time
	bytes atomic.Int64
	heap  atomic.Uint64 // largest heap size so far, in bytes
}

// Progress implements host.Client.
func (*slowClient) Progress(string, map[string]any) {}

// Output implements host.Client.
func (c *slowClient) Output(_ tool.Stream, chunk []byte) {
	n := c.bytes.Add(int64(len(chunk)))
	var m runtime.MemStats
	if n>>24 != (n-int64(len(chunk)))>>24 { // every 16 MB
		runtime.ReadMemStats(&m)
		c.heap.Store(max(c.heap.Load(), m.HeapInuse))
	}
	time.Sleep(time.Until(c.began.Add(time.Duration(n) * time.Second / slowRate)))
}

// Ask implements host.Client.
func (*slowClient) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	return tool.Answer{}, errors.New("nobody is here")
}

// slowReader makes this process a gateway that slowly reads a long output. It checks that neither the owner nor the
// gateway buffers the whole output.
func (b *fleetBench) slowReader(ctx context.Context, out io.Writer) error {
	token, err := exec.CommandContext(ctx, filepath.Join(b.bin, "toolhost"), b.owner.arguments("fleet", "token")...).Output() //nolint:gosec // built here
	if err != nil {
		return err
	}
	h, err := host.New(ctx, host.Options{Config: b.config, BundledDir: filepath.Join(b.bin, "plugins"), Workspace: b.workspace, StateDir: filepath.Join(b.dir, "reader"), Live: true})
	if err != nil {
		return err
	}
	defer h.Close() //nolint:errcheck // it does not affect the measurement
	n, err := fleet.Start(ctx, h, fleet.Options{Join: b.owner.listen, Token: strings.TrimSpace(string(token)), Node: "reader", Listen: "127.0.0.1:0", Programs: b.bin})
	if err != nil {
		return err
	}
	defer n.Close() //nolint:errcheck // it does not affect the measurement
	req := host.Request{Workspace: "repo", Command: "true", Principal: host.LocalUser()}
	for i := 0; ; i++ { // repeat until the node "owner" has the session
		req.Session = "slow" + strconv.Itoa(i)
		res := h.Run(ctx, req, nil)
		if !res.Success() {
			return res.Error
		}
		if res.Metadata["node"] == "owner" {
			break
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, err := memory(b.owner.cmd.Process.Pid, "VmRSS:")
	if err != nil {
		return err
	}
	most, stop := watchMemory(b.owner.cmd.Process.Pid)
	c := &slowClient{began: time.Now()}
	req.Command = "flood " + strconv.Itoa(slowBytes)
	res := h.Run(ctx, req, c)
	took := time.Since(c.began)
	stop()
	if !res.Success() {
		return res.Error
	}
	owner, gateway := int64(*most-before)<<10, int64(c.heap.Load())-int64(m.HeapInuse)
	fmt.Fprintf(out, "%d MB to a reader of %d MB a second\t%d MB in %.1f s\towner +%.1f MB, gateway +%.1f MB\t\tat most %d MB each\t%s\n", slowBytes/1_000_000, slowRate/1_000_000, c.bytes.Load()/1_000_000, took.Seconds(),
		float64(owner)/(1<<20), float64(gateway)/(1<<20), maxHeld>>20, verdict(owner <= maxHeld && gateway <= maxHeld && c.bytes.Load() == slowBytes))
	return nil
}

// watchMemory measures the memory of a process until stop is called. The result "most" then points to the largest
// value, in kB.
func watchMemory(pid int) (most *int, stop func()) {
	most = new(int)
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			if kb, err := memory(pid, "VmRSS:"); err == nil {
				*most = max(*most, kb)
			}
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return most, func() {
		close(end)
		done.Wait()
	}
}

// takeovers kills the owner of a session, and measures the time until another node answers for the session.
func (b *fleetBench) takeovers(ctx context.Context, out io.Writer) error {
	var all []time.Duration
	for i := range 3 {
		session := b.sessions[i]
		b.owner.kill()
		began := time.Now()
		if _, err := b.gateway.ask(ctx, session, "true"); err != nil {
			return err
		}
		all = append(all, time.Since(began))
		if err := b.owner.run(ctx); err != nil {
			return err
		}
		if i == 2 {
			break
		}
		// #nosec G204 -- built here
		if text, err := exec.CommandContext(ctx, filepath.Join(b.bin, "toolhost"), b.owner.arguments("fleet", "move", b.sessions[i+1], "--to", "owner")...).CombinedOutput(); err != nil && !bytes.Contains(text, []byte("on owner already")) {
			return fmt.Errorf("%w: %s", err, text)
		}
		if _, err := b.owner.ask(ctx, b.sessions[i+1], "true"); err != nil {
			return err
		}
	}
	worst := quantile(all, 1) - fleetLease
	fmt.Fprintf(out, "takeover after a kill, worst of %d, without the lease of %s\t%.1f s\t\t\tat most 5 s\t%s\n", len(all), fleetLease, worst.Seconds(), verdict(worst <= 5*time.Second))
	return nil
}

// lookups measures how fast a node finds one of 10 000 sessions in its directory. It runs a benchmark of the package
// that implements the directory.
func (*fleetBench) lookups(ctx context.Context, out io.Writer) error {
	c := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkFind$", "-benchtime", "300ms", "toolhost.dev/host/fleet/internal/directory")
	text, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	_, rest, _ := strings.Cut(string(text), "BenchmarkFind")
	f := strings.Fields(rest)
	if len(f) < 3 {
		return fmt.Errorf("the benchmark printed %q", text)
	}
	ns, err := strconv.ParseFloat(f[2], 64)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "look-up in a directory of 10 000 sessions\t%.0f ns\t\t\tat most 1 µs\t%s\n", ns, verdict(ns <= 1000))
	return nil
}
