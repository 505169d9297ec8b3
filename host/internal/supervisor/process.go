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

// maxHandshake limits the handshake line, in bytes. The line can contain a certificate.
const maxHandshake = 16 << 10

// process runs a plugin binary. It implements the runner of go-plugin. It passes only the handshake line to
// go-plugin, because other output of a plugin could panic or block the readers of go-plugin.
type process struct {
	path      string
	socketDir string
	inherit   *os.File // file for the process to inherit; can be nil
	confine   func() (*Confined, error)
	ended     func()              // called when the process has ended; can be nil
	guard     func(pid int) error // see [Site]; can be nil
	sink      *sink

	started      chan struct{} // closed after Start, or when Start can no longer run; then cmd is immutable
	closeStarted func()
	cmd          *exec.Cmd
	program      Program  // nil for a process of the operating system; see Options.Programs
	lifeline     *os.File // closed when the host no longer needs the process
	handshake    *io.PipeReader
	lastWords    *tail // last lines of stderr, and of stdout before the handshake

	shaken  atomic.Bool // whether the process sent the handshake line
	garbage atomic.Pointer[string]
	version atomic.Int64          // version of the application protocol in the handshake line
	refused atomic.Pointer[error] // reason why the host rejects the plugin's address
	exited  chan struct{}
	exitErr error // set before exited is closed
	kill    sync.Once
}

func newProcess(spec *Spec, log *slog.Logger, site Site) *process {
	cmd := exec.Command(spec.Path, spec.Args...) //nolint:gosec // running what the operator configured is the purpose
	cmd.Dir = "/"
	cmd.SysProcAttr = attributes()
	started := make(chan struct{})
	p := &process{
		path: spec.Path, sink: &sink{log: log, site: site, plugin: spec.Name}, cmd: cmd,
		started: started, closeStarted: sync.OnceFunc(func() { close(started) }),
		lastWords: newTail(lastWordsSize), exited: make(chan struct{}),
	}
	p.sink.pid = p.pid
	return p
}

// prepare sets the environment and the socket directory of the process. The caller must call it once,
// before Start.
func (p *process) prepare(env []string, socketDir string) {
	p.cmd.Env, p.socketDir = env, socketDir
}

// Start implements the runner of go-plugin.
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
	p.cmd.ExtraFiles = []*os.File{lifeR} // descriptor 3 in the process
	if p.inherit != nil {
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, p.inherit) // descriptor InheritedFD in the process
	}
	p.cmd.Env = append(p.cmd.Env, toolrpc.LifelineEnv+"=3")
	p.lifeline = lifeW
	handshake, line := io.Pipe()
	p.handshake = handshake
	if err := p.runGuarded(); err != nil {
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
		// Wait for the last output, because it can contain the reason. The wait is short, because another process can
		// keep the pipe open.
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

// run starts the process. If it returns nil, the process is running.
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
	p.discard()
	if errno := syscall.Errno(0); err == start || errors.As(err, &errno) && error(errno) == err { //nolint:errorlint // as it is: that of executing the plugin
		return startError(p.path, err)
	}
	return err
}

// runGuarded starts the process and calls the supervisor's guard with its id.
func (p *process) runGuarded() error {
	if err := p.run(); err != nil || p.guard == nil {
		return err
	}
	err := p.guard(p.cmd.Process.Pid) // the process is not reaped yet, so no other process has its id
	if err != nil {
		p.discard()
	}
	return err
}

// discard ends a process that the host does not use.
func (p *process) discard() {
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd.Process = nil
	}
	if p.ended != nil {
		p.ended()
	}
}

// startError returns an error that explains why a binary cannot run and how to fix it.
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

// readStdout passes the handshake line to go-plugin. It reads and drops all further output, because a plugin would
// otherwise block on a full pipe.
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
	scanLines(in, p.sink.write)
}

// accept reports whether a line is a valid handshake line. It stores the protocol version of the handshake.
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
		p.sink.write(b)
	})
}

// Wait implements the runner of go-plugin.
func (p *process) Wait(context.Context) error {
	<-p.exited
	return p.exitErr
}

// Kill implements the runner of go-plugin. It kills the process and its process group.
func (p *process) Kill(context.Context) error {
	p.kill.Do(func() {
		if pid := p.pid(); p.program != nil {
			p.program.Kill()
		} else if pid != 0 {
			killGroup(pid)
			_ = p.cmd.Process.Kill()
		}
		if p.socketDir != "" {
			_ = os.RemoveAll(p.socketDir)
		}
	})
	return nil
}

// Stdout implements the runner of go-plugin.
func (p *process) Stdout() io.ReadCloser { return p.handshake }

// Stderr implements the runner of go-plugin. The returned reader is empty; see [process].
func (p *process) Stderr() io.ReadCloser { return io.NopCloser(bytes.NewReader(nil)) }

// Name implements the runner of go-plugin.
func (p *process) Name() string { return p.sink.plugin }

// ID implements the runner of go-plugin.
func (p *process) ID() string { return strconv.Itoa(p.pid()) }

// pid returns the id of the process, or 0 if the start failed. It waits until Start returns.
func (p *process) pid() int {
	<-p.started
	switch {
	case p.program != nil:
		return p.program.PID()
	case p.cmd.Process == nil:
		return 0
	}
	return p.cmd.Process.Pid
}

// Diagnose implements the runner of go-plugin. It returns no text, because [process.why] explains failures.
func (p *process) Diagnose(context.Context) string { return "" }

// HostToPlugin implements the runner of go-plugin.
func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// PluginToHost implements the runner of go-plugin. It accepts only a socket in the directory of the process. Otherwise
// a plugin could make the host connect to any address.
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

// hasExited reports whether the process ends within the duration d.
func (p *process) hasExited(d time.Duration) bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(d):
		return false
	}
}

// exitText describes how the process ended and contains its last output. The caller must first wait until exited is
// closed.
func (p *process) exitText() string {
	how := p.exitStatus()
	if words := p.lastWords.said(); words != "" {
		how += "; its output ends with:\n" + words
	}
	return how
}

// exitCause describes how the process ended in one line.
func (p *process) exitCause() string {
	how := p.exitStatus()
	if cause := p.lastWords.cause(); cause != "" {
		how += ": " + cause
	}
	return how
}

func (p *process) exitStatus() string {
	if p.exitErr != nil {
		return p.exitErr.Error()
	}
	return "exit status 0"
}
