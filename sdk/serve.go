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

// Serve serves the plugin until the host ends it. Call it first in main. Serve does not return. The
// process exits with status 1 if the plugin's own name, version or configuration is invalid, and
// else with status 0. If the definition of a tool is invalid, the host refuses that tool alone.
func Serve(p Plugin) {
	stdout := claimStdout()
	hardenProcess()
	if os.Getenv("GOGC") == "" {
		// The heap of most plugins is small. Collecting it at every doubling costs more than the memory is worth.
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
	os.Stdout = stdout // for go-plugin's handshake line; go-plugin then replaces it
	toolrpc.Serve(r)
	runtime.KeepAlive(stdout) // or its finalizer would close it
	r.shutdown(errHostGone)
	os.Exit(0)
}

// watchHost ends the plugin when the host is gone. It watches for the end of file on the lifeline,
// and for SIGTERM, which the kernel sends when the host dies.
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
		_, _ = lifeline.Read(make([]byte, 1)) // returns only at end of file
		end()
	}()
}

// removeSocketDir removes the directory that a host could not remove because it was killed during
// the handshake.
func removeSocketDir() {
	if dir := os.Getenv(toolrpc.SocketDirEnv); dir != "" {
		_ = os.RemoveAll(dir)
	}
}
