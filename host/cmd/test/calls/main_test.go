// Package calls tests calls: one command string, batches, jobs, prompts, and the order of calls. The tests start the
// program toolhost.
package calls

import (
	"os"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

func TestScripts(t *testing.T) { hosttest.Scripts(t) }
