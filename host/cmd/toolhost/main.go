// Command toolhost gives an LLM agent its tools: it loads each from a plugin binary and
// runs what one command string means.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses; a native command's own status goes through as it is.
const (
	exitOK      = 0
	exitFailure = 1 // a tool failed
	exitUsage   = 2 // the command line or the configuration is wrong
)

// exitError ends the program with a status; its message was already printed.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := newRoot().ExecuteContext(ctx)
	stop()
	var code exitError
	switch {
	case err == nil:
		os.Exit(exitOK)
	case errors.As(err, &code):
		os.Exit(int(code))
	}
	fmt.Fprintln(os.Stderr, "toolhost:", err)
	os.Exit(exitUsage)
}
