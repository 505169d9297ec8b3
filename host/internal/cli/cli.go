// Package cli implements the commands of the program toolhost.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"toolhost.dev/host/internal/cli/process"
	"toolhost.dev/host/internal/cli/screen"
)

// Main runs the program and returns its exit status.
func Main() int {
	delayCollection()
	err := newRoot().ExecuteContext(process.WithTermination(process.WithHangup(process.WithInterrupt(context.Background()))))
	var code process.ExitError
	switch {
	case err == nil:
		return process.ExitOK
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(os.Stderr, "toolhost:", screen.Clean(err.Error()))
	return process.ExitUsage
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
