// Package mcp tests MCP: the server over stdio and HTTP, mounted servers, and logins. The tests start the program
// toolhost.
package mcp

import (
	"os"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

func TestScripts(t *testing.T) { hosttest.Scripts(t) }
