package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"toolhost.dev/sdk/toolrpc"
)

// maxHandshake bounds the handshake line, in bytes; a certificate fits in it.
const maxHandshake = 16 << 10

// process runs one plugin binary. It is go-plugin's runner: go-plugin sees the
// handshake line and nothing else of what the process prints, because its own log
// reader can be made to panic, and its line reader to block, by what a plugin
// writes.
type process struct {
	name      string
	path      string
	socketDir string
	inherit   *os.File // nil: nothing
	confine   func() (*Confined, error)
	ended     func() // nil: nobody waits for that
	log       *slog.Logger

	started      chan struct{} // closed when Start is over, or never comes; cmd is settled from then on
	closeStarted func()
	cmd          *exec.Cmd
	lifeline     *os.File // closed when the host is done with the process
	handshake    *io.PipeReader
	lastWords    *tail // what it wrote to stderr, and to stdout before the handshake

	shaken  atomic.Bool // the handshake line was seen
	garbage atomic.Pointer[string]
	version atomic.Int64          // of the application protocol, as announced
	refused atomic.Pointer[error] // why its address is not dialed
	exited  chan struct{}
	exitErr error // set before exited is closed
	kill    sync.Once
}

func newProcess(spec *Spec, log *slog.Logger) *process {
	cmd := exec.Command(spec.Path, spec.Args...) //nolint:gosec // running what the operator configured is the purpose
	cmd.Dir = "/"
	cmd.SysProcAttr = attributes()
	started := make(chan struct{})
	return &process{
		name: spec.Name, path: spec.Path, log: log, cmd: cmd,
		started: started, closeStarted: sync.OnceFunc(func() { close(started) }),
		lastWords: newTail(lastWordsSize), exited: make(chan struct{}),
	}
}

// prepare is called once, before Start.
func (p *process) prepare(env []string, socketDir string) {
	p.cmd.Env, p.socketDir = env, socketDir
}

// Start implements go-plugin's runner.
func (p *process) Start(context.Context) (err error) {
	defer p.closeStarted()
	var closers []io.Closer
	defer func() {
		for _, c := range closers {
			_ = c.Close()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	outR, outW := pipe()
	errR, errW := pipe()
	lifeR, lifeW := pipe()
	if err != nil {
		return fmt.Errorf("cannot make pipes: %w", err)
	}
	closers = append(closers, outW, errW, lifeR)
	p.cmd.Stdout, p.cmd.Stderr = outW, errW
	p.cmd.ExtraFiles = []*os.File{lifeR} // descriptor 3
	if p.inherit != nil {
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, p.inherit) // InheritedFD
	}
	p.cmd.Env = append(p.cmd.Env, toolrpc.LifelineEnv+"=3")
	p.lifeline = lifeW
	handshake, line := io.Pipe()
	p.handshake = handshake
	if err := p.run(); err != nil {
		_ = lifeW.Close()
		closers = append(closers, outR, errR)
		return err
	}
	go p.readStdout(outR, line)
	stderrDone := make(chan struct{})
	go func() {
		defer close(stderrDone)
		p.readStderr(errR)
	}()
	go func() {
		err := p.cmd.Wait()
		// What it last said belongs to the reason; a grandchild may hold the pipe open.
		select {
		case <-stderrDone:
		case <-time.After(100 * time.Millisecond):
		}
		p.exitErr = err
		if p.ended != nil {
			p.ended()
		}
		close(p.exited)
		_ = line.Close()
		_ = lifeW.Close()
	}()
	return nil
}

// run starts the process. When it returns without an error, the plugin runs.
func (p *process) run() error {
	running := func(err error) error { return err }
	if p.confine != nil {
		confined, err := p.confine()
		if err != nil {
			return err
		}
		if confined != nil {
			running, p.ended = confined.Running, confined.Ended
		}
	}
	start := forkFromSafeThread(p.cmd.Start)
	err := running(start)
	if err == nil {
		return nil
	}
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd.Process = nil
	}
	if p.ended != nil {
		p.ended()
	}
	if errno := syscall.Errno(0); err == start || errors.As(err, &errno) && error(errno) == err { //nolint:errorlint // as it is: that of executing the plugin
		return startError(p.path, err)
	}
	return err
}

// startError returns an error that explains why a binary cannot be run, with the remedy.
func startError(path string, err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		if _, statErr := os.Stat(path); statErr == nil {
			return fmt.Errorf("cannot run %s: its interpreter or loader does not exist; install it", path)
		}
		return fmt.Errorf("the file %s does not exist; build or install the plugin, or correct its path", path)
	case errors.Is(err, os.ErrPermission):
		if st, statErr := os.Stat(path); statErr == nil && st.IsDir() {
			return fmt.Errorf("%s is a directory; name the plugin's binary", path)
		}
		return fmt.Errorf("%s is not executable; run chmod +x", path)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s is not a program for this machine; rebuild it for this system", path)
	}
	return fmt.Errorf("cannot run %s: %w", path, err)
}

// readStdout hands the handshake line to go-plugin and drains the rest, so that a
// plugin that prints never blocks.
func (p *process) readStdout(r *os.File, line *io.PipeWriter) {
	defer r.Close() //nolint:errcheck // read side
	in := bufio.NewReaderSize(r, maxHandshake)
	first, err := in.ReadSlice('\n')
	text := strings.TrimRight(string(first), "\r\n")
	if err == nil && p.accept(text) {
		p.shaken.Store(true)
		_, _ = io.WriteString(line, text+"\n")
	} else if len(text) > 0 {
		if len(text) > 200 {
			text = text[:200] + "…"
		}
		p.garbage.Store(&text)
	}
	_ = line.Close()
	scanLines(in, func(b []byte) { p.log.Info("plugin stdout", "plugin", p.name, "line", string(b)) })
}

// accept reports whether a line is a handshake, and keeps the version it announces.
func (p *process) accept(line string) bool {
	parts := strings.Split(line, "|")
	if len(parts) < 5 {
		return false
	}
	if _, err := strconv.Atoi(parts[0]); err != nil {
		return false
	}
	v, err := strconv.Atoi(parts[1])
	p.version.Store(int64(v))
	return err == nil
}

func (p *process) readStderr(r *os.File) {
	defer r.Close() //nolint:errcheck // read side
	scanLines(r, func(b []byte) {
		p.lastWords.add(b)
		logLine(p.log, p.name, b)
	})
}

// Wait implements go-plugin's runner.
func (p *process) Wait(context.Context) error {
	<-p.exited
	return p.exitErr
}

// Kill implements go-plugin's runner: it ends the process and its group, for good.
func (p *process) Kill(context.Context) error {
	p.kill.Do(func() {
		if pid := p.pid(); pid != 0 {
			killGroup(pid)
			_ = p.cmd.Process.Kill()
		}
		if p.socketDir != "" {
			_ = os.RemoveAll(p.socketDir)
		}
	})
	return nil
}

// Stdout implements go-plugin's runner.
func (p *process) Stdout() io.ReadCloser { return p.handshake }

// Stderr implements go-plugin's runner. The reader is empty; see [process].
func (p *process) Stderr() io.ReadCloser { return io.NopCloser(bytes.NewReader(nil)) }

// Name implements go-plugin's runner.
func (p *process) Name() string { return p.name }

// ID implements go-plugin's runner.
func (p *process) ID() string { return strconv.Itoa(p.pid()) }

// pid waits for Start to be over; it is 0 when there is no process.
func (p *process) pid() int {
	<-p.started
	if p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Diagnose implements go-plugin's runner; see [process.why] instead.
func (p *process) Diagnose(context.Context) string { return "" }

// HostToPlugin implements go-plugin's runner.
func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// PluginToHost implements go-plugin's runner. Only a socket in the process's own
// directory is dialed: a plugin could name any address of the machine or the network.
func (p *process) PluginToHost(network, addr string) (string, string, error) {
	var err error
	if network != "unix" || filepath.Dir(filepath.Clean(addr)) != p.socketDir {
		err = fmt.Errorf("the plugin announced the address %s %q, which is not in its socket directory; listen in the directory of PLUGIN_UNIX_SOCKET_DIR", network, addr)
	} else if st, statErr := os.Lstat(addr); statErr != nil || st.Mode().Type() != os.ModeSocket {
		err = fmt.Errorf("the plugin announced %q, which is not a socket; listen before the handshake", addr)
	}
	if err != nil {
		p.refused.Store(&err)
		return "", "", err
	}
	return network, addr, nil
}

// hasExited waits at most d for the process to end.
func (p *process) hasExited(d time.Duration) bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(d):
		return false
	}
}

// exitText describes how the process ended, with its last output. Call it after exited is closed.
func (p *process) exitText() string {
	how := "exit status 0"
	if p.exitErr != nil {
		how = p.exitErr.Error()
	}
	if words := p.lastWords.said(); words != "" {
		how += "; its output ends with:\n" + words
	}
	return how
}
