package workspace

import (
	"errors"
	"os"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

// TestUncertainChange checks the error for a change that exists but was possibly not written to disk.
func TestUncertainChange(t *testing.T) {
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := pinned{file: f}
	if err := d.sync("/a/b"); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	err = fail("write", "/a/b", d.sync("/a/b"))
	if !errors.Is(err, &tool.Error{Kind: tool.ExecutionFailed}) || !strings.HasPrefix(err.Error(), "/a/b was changed") {
		t.Error(err)
	}
}
