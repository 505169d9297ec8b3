// Package sandbox tests what confines commands: the sandbox, the exec gate, masks, and clones of hostile repositories.
// The tests start the program toolhost.
package sandbox

import (
	"os"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

func TestScripts(t *testing.T) { hosttest.Scripts(t) }
