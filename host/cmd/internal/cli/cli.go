// Package cli implements the commands of the program toolhost. [Run] runs one command line, also inside of another
// program, and [Main] the one of this process.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

// Stdio is what a command reads and writes, and its environment. The zero value has an empty input and discards the
// output.
type Stdio = process.Stdio

// Run runs one command line, without the name of the program, and returns its exit status. It returns when the command
// ends or when ctx is canceled. Run can be called again, and several calls can run at the same time.
//
// Plugins are programs of their own. They are found beside the executable of the process, and inherit its environment.
func Run(ctx context.Context, args []string, stdio Stdio) int {
	stdio = stdio.Complete()
	root := newRoot(stdio)
	root.SetArgs(append([]string{}, args...)) // for nil, cobra would use the arguments of the process
	err := root.ExecuteContext(ctx)
	if lines, ok := root.ErrOrStderr().(*process.JSONLines); ok {
		stdio.Err = lines
		defer lines.Flush() //nolint:errcheck // nobody could read about it
	}
	var code process.ExitError
	switch {
	case err == nil:
		return process.ExitOK
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(stdio.Err, "toolhost:", screen.Clean(explainCommand(root, err).Error()))
	return process.ExitUsage
}

// Main runs the command line of this process, and returns the exit status. It catches signals and sets up the garbage
// collector, so only the main function of a program may call it.
func Main() int {
	delayCollection()
	ctx, signals := process.Notify(context.Background())
	stdio := process.OfProcess()
	stdio.Signals = signals
	return Run(ctx, os.Args[1:], stdio)
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
