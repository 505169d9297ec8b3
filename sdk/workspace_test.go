package sdk_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
)

// TestCutOffWritesAreClearedUp checks that a plugin with a state directory removes the partial writes of a killed
// process.
func TestCutOffWritesAreClearedUp(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	h := tooltest.New(t, sdk.Plugin{Name: "p", Version: "1.0.0", Tools: []sdk.Tool{
		sdk.NewTool(sdk.Definition{Name: "touch", Description: "Open the workspace."}, func(_ context.Context, call *sdk.Call, _ struct{}) (*sdk.Result, error) {
			_, err := call.Workspace()
			return sdk.Text("done"), err
		}),
	}}, dir)
	temp := filepath.Join(h.Cwd, ".toolhost-0123456789ABCDEF.tmp")
	for path, content := range map[string]string{
		temp:                         "half of it",
		state + "/writes/a.journal":  fmt.Sprintf("{\"id\":1,\"temp\":%q,\"target\":%q}\n", temp, h.Cwd+"/file"),
		state + "/writes/b.journal~": "not a journal",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if d := h.Configure(tool.Configuration{StateDir: state}); len(d) > 0 {
		t.Fatal(d)
	}
	if res := h.Call("touch", nil); res.Error != nil {
		t.Fatal(res.Error)
	}
	if _, err := os.Lstat(temp); err == nil {
		t.Error("the temporary file is still there")
	}
	if left, _ := filepath.Glob(state + "/writes/*.journal"); left != nil {
		t.Errorf("left: %v", left)
	}
}
