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

// process runs a plugin binary. It implements go-plugin's runner, but passes only the handshake line of the process to
// go-plugin. A plugin's output could otherwise make go-plugin's log reader panic, and its line reader block.
type process struct {
	name      string
	path      string
	socketDir string
	inherit   *os.File // nil if the process inherits no file
	confine   func() (*Confined, error)
	ended     func() // called after the end of the process; can be nil
	log       *slog.Logger

	started      chan struct{} // closed when Start has returned or will never run; cmd does not change afterwards
	closeStarted func()
	cmd          *exec.Cmd
	lifeline     *os.File // closed when the host no longer needs the process
	handshake    *io.PipeReader
	lastWords    *tail // output on stderr, and on stdout before the handshake

	shaken  atomic.Bool // whether the handshake line was received
	garbage atomic.Pointer[string]
	version atomic.Int64          // version of the application protocol in the handshake
	refused atomic.Pointer[error] // why the host does not dial the plugin's address
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

// prepare sets the environment and the socket directory. It must be called once, before Start.
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
	p.cmd.ExtraFiles = []*os.File{lifeR} // the process gets it as descriptor 3
	if p.inherit != nil {
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, p.inherit) // the process gets it as descriptor InheritedFD
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
		// The last output is part of the reason. Do not wait long, because another process can hold the pipe open.
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

// run starts the process. If run returns no error, the plugin is running.
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

// startError returns an error with the reason why a binary cannot run, and the remedy.
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

// readStdout passes the handshake line to go-plugin. It discards all further output, so that a plugin that prints never
// blocks.
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

// accept reports whether a line is a handshake, and stores the version in it.
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

// Kill implements go-plugin's runner. It kills the process and its process group.
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

// pid waits until Start has returned. It returns 0 if no process was started.
func (p *process) pid() int {
	<-p.started
	if p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Diagnose implements go-plugin's runner. It returns no text, because [process.why] explains failures.
func (p *process) Diagnose(context.Context) string { return "" }

// HostToPlugin implements go-plugin's runner.
func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// PluginToHost implements go-plugin's runner. It accepts only a socket in the process's own directory, because a plugin
// could otherwise make the host connect to any address.
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

// hasExited waits up to d for the process to end.
func (p *process) hasExited(d time.Duration) bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(d):
		return false
	}
}

// exitText describes the end of the process, with its last output. It must be called after exited is closed.
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
