// Package docs tests what the documents, the kits for plugins and the scaffolds promise.
package docs

import (
	"os"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
