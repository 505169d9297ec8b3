package sdk

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"toolhost.dev/sdk/toolrpc"
)

var errHostGone = errors.New("sdk: the host has ended")

// Serve serves the plugin until the host ends it. Call Serve first in main. It does not return. If the plugin's own
// name, version or configuration is invalid, the process exits with status 1, and otherwise with status 0. If the
// definition of a tool is invalid, the host refuses only that tool.
func Serve(p Plugin) {
	stdout := claimStdout()
	hardenProcess()
	if os.Getenv("GOGC") == "" {
		// The heap of most plugins is small. Go would collect garbage each time the heap doubles, which costs more time
		// than the saved memory is worth.
		debug.SetGCPercent(400)
	}
	if p.OneProcessor && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	r, toolErr, err := newRunner(p)
	if err != nil {
		fmt.Fprintf(os.Stderr, "plugin %q is invalid: %v\n", p.Name, err)
		os.Exit(1)
	}
	if toolErr != nil {
		fmt.Fprintf(os.Stderr, "plugin %s: the host will refuse some tools: %v\n", p.Name, toolErr)
	}
	watchHost(r)
	os.Stdout = stdout // go-plugin writes its handshake line to it, and then replaces it
	toolrpc.Serve(r)
	runtime.KeepAlive(stdout) // otherwise, the finalizer could close the file
	r.shutdown(errHostGone)
	os.Exit(0)
}

// watchHost ends the plugin when the host has exited. It detects that by the end of file on the lifeline, and by the
// signal SIGTERM, which the kernel sends when the host dies.
func watchHost(r *runner) {
	end := func() {
		time.AfterFunc(3*time.Second, func() { os.Exit(1) })
		r.shutdown(errHostGone)
		removeSocketDir()
		os.Exit(0)
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		<-term
		end()
	}()
	fd, err := strconv.Atoi(os.Getenv(toolrpc.LifelineEnv))
	if err != nil {
		return
	}
	_ = os.Unsetenv(toolrpc.LifelineEnv)
	lifeline := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		_, _ = lifeline.Read(make([]byte, 1)) // Read returns only at the end of file
		end()
	}()
}

// removeSocketDir removes the directory of the socket. The host cannot remove it if the host is killed during the
// handshake.
func removeSocketDir() {
	if dir := os.Getenv(toolrpc.SocketDirEnv); dir != "" {
		_ = os.RemoveAll(dir)
	}
}
