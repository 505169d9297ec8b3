// Package http tests the HTTP API, principals, and the console. The tests start the program toolhost.
package http

import (
	"os"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
