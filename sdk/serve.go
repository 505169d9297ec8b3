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

var errHostGone = errors.New("sdk: the host is gone")

// Serve runs the plugin until the host ends it; call it first thing in main. It
// does not return: the process exits, with status 1 when the plugin's own name, version or
// configuration is not well defined. A tool that is not is refused by the host; the
// others work.
func Serve(p Plugin) {
	stdout := claimStdout()
	hardenProcess()
	if os.Getenv("GOGC") == "" {
		// The heap of most plugins is so small that collecting it at every doubling costs
		// more than the memory is worth.
		debug.SetGCPercent(400)
	}
	if p.OneProcessor && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	r, toolErr, err := newRunner(p)
	if err != nil {
		fmt.Fprintf(os.Stderr, "plugin %q is not well defined: %v\n", p.Name, err)
		os.Exit(1)
	}
	if toolErr != nil {
		fmt.Fprintf(os.Stderr, "plugin %s: the host will refuse a part: %v\n", p.Name, toolErr)
	}
	watchHost(r)
	os.Stdout = stdout // for go-plugin's handshake line; it then replaces it
	toolrpc.Serve(r)
	runtime.KeepAlive(stdout) // else it is closed at some time when nobody refers to it any more
	r.shutdown(errHostGone)
	os.Exit(0)
}

// watchHost ends the plugin when the host is gone: end of file on the lifeline, or
// SIGTERM, which the kernel sends when the host dies.
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

// removeSocketDir removes what a host killed during the handshake could not.
func removeSocketDir() {
	if dir := os.Getenv(toolrpc.SocketDirEnv); dir != "" {
		_ = os.RemoveAll(dir)
	}
}
