// Package durable tests what outlives a process: kills, swaps, restarts, rollouts, releases, services and containers.
// The tests start the program toolhost.
package durable

import (
	"os"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

func TestScripts(t *testing.T) { hosttest.Scripts(t) }
