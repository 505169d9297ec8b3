// Command toolhost provides tools to an LLM agent. It loads the tools from plugins and runs command strings with these
// tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"toolhost.dev/host/cmd/toolhost/internal/cli"
)

func main() {
	delayCollection()
	err := newRoot().ExecuteContext(cli.WithTermination(cli.WithHangup(cli.WithInterrupt(context.Background()))))
	var code cli.ExitError
	switch {
	case err == nil:
		os.Exit(cli.ExitOK)
	case errors.As(err, &code):
		os.Exit(int(code))
	}
	fmt.Fprintln(os.Stderr, "toolhost:", cli.Clean(err.Error()))
	os.Exit(cli.ExitUsage)
}

// delayCollection delays the first garbage collection until the heap reaches 10 MB, which is more than twice its usual
// size. A run of a single command ends before that. Without the delay, garbage collections during the start would take
// a fifth of such a run's time. After the first collection, the heap may grow to four times the used memory, which is
// still small. With Go's default, collections would take a tenth of the time of short calls.
func delayCollection() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(250)
	runtime.AddCleanup(new([64]byte), func(int) { debug.SetGCPercent(300) }, 0)
}
