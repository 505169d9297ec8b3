// Package fleet tests fleets of several hosts. The tests start the program toolhost.
package fleet

import (
	"os"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
