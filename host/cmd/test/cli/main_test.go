// Package cli tests commands that need no tool: configuration, policy, plugins, set-up and state. The tests start the
// program toolhost.
package cli

import (
	"os"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

func TestScripts(t *testing.T) { hosttest.Scripts(t) }
