package sdk

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/toolrpc"
)

// errHostGone is the error of calls that still run when the plugin must end, usually because the host has exited.
var errHostGone = tool.Errorf(tool.Canceled, "The call was stopped, because its plugin was told to end.")

// Serve serves the plugin until the host ends it. Call Serve first in main. It does not return. The exit status of
// the process is 1 if the plugin's own name, version or configuration is invalid, and 0 otherwise. If the definition
// of a tool is invalid, the host refuses only that tool.
func Serve(p Plugin) {
	stdout := claimStdout()
	hardenProcess()
	if os.Getenv("GOGC") == "" {
		// The heap of most plugins is small. By default, Go collects garbage each time the heap doubles. In a small
		// heap, this saves little memory and costs more time than it is worth.
		debug.SetGCPercent(400)
	}
	if p.OneProcessor && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	slog.SetDefault(newLogger())
	waitForDebugger()
	r, toolErr, err := newRunner(p)
	if err != nil {
		fmt.Fprintf(os.Stderr, "plugin %q is invalid: %v\n", p.Name, err)
		os.Exit(1)
	}
	if toolErr != nil {
		fmt.Fprintf(os.Stderr, "plugin %s: the host will refuse some tools: %v\n", p.Name, toolErr)
	}
	listening := make(chan struct{})
	watchHost(r, listening)
	os.Stdout = stdout // go-plugin writes its handshake line to os.Stdout and then replaces os.Stdout
	toolrpc.Serve(r, func() { close(listening) })
	runtime.KeepAlive(stdout) // prevents the finalizer from closing the file
	r.shutdown(errHostGone)
	os.Exit(0)
}

// waitForDebugger waits until a debugger is attached, if the environment requests it.
func waitForDebugger() {
	if os.Getenv(toolrpc.WaitEnv) == "" {
		return
	}
	exe, _ := os.Executable() // only for the message
	slog.Warn(fmt.Sprintf("waiting for a debugger: dlv attach %d %s", os.Getpid(), exe))
	for !traced() {
		if os.Getppid() == 1 { // the host has exited
			os.Exit(1)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// watchHost ends the plugin when the host has exited, even if the plugin's Close does not return. When the host
// exits, a read from the lifeline returns the end of file. The kernel also sends the signal SIGTERM. The channel
// listening is closed when the plugin has its socket.
func watchHost(r *runner, listening <-chan struct{}) {
	end := func(answers time.Duration) {
		exit := func(status int) {
			removeSocketDir()
			os.Exit(status)
		}
		time.AfterFunc(3*time.Second, func() { exit(1) })
		if r.shutdown(errHostGone) > 0 {
			time.Sleep(answers)
		}
		<-listening // otherwise the socket could be made after its directory was removed, and stay
		exit(0)
	}
	// When the host has exited, nobody reads what the plugin writes to standard error. By default, the next message
	// would end the plugin with SIGPIPE before it has cleaned up. The channel is unused: with it, such a write only
	// fails.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		end(sendAnswers)
	}()
	fd, err := strconv.Atoi(os.Getenv(toolrpc.LifelineEnv))
	if err != nil {
		return
	}
	_ = os.Unsetenv(toolrpc.LifelineEnv)
	lifeline := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		_, _ = lifeline.Read(make([]byte, 1)) // ignore the result: Read returns only at the end of file
		end(0)
	}()
}

// sendAnswers is the time in which the answers of canceled calls are sent to a host that still runs. It is a fixed
// time, because the gRPC library does not report when the answers were sent.
const sendAnswers = 100 * time.Millisecond

// removeSocketDir removes the directory of the socket. It is necessary if the host is killed during the handshake
// and cannot remove the directory itself.
func removeSocketDir() {
	if dir := os.Getenv(toolrpc.SocketDirEnv); dir != "" {
		_ = os.RemoveAll(dir)
	}
}
