package tooltest_test

import (
	"context"
	"os"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
)

type catArgs struct {
	File string `json:"file" path:"read"`
}

type catData struct {
	Size int `json:"size"`
}

func cat(_ context.Context, call *sdk.Call, in catArgs) (*sdk.Result, error) {
	ws, err := call.Workspace()
	if err != nil {
		return nil, err
	}
	p, err := ws.Resolve(call.Cwd, in.File)
	if err != nil {
		return nil, err
	}
	s, err := ws.ReadFile(p, 1000)
	if err != nil {
		return nil, err
	}
	return &sdk.Result{Output: string(s.Data), Data: sdk.Data(catData{len(s.Data)})}, nil
}

func TestFiles(t *testing.T) {
	h := tooltest.New(t, sdk.Plugin{Name: "cat", Version: "1.0.0", Tools: []sdk.Tool{sdk.NewTool(sdk.Definition{Name: "cat", Description: "Show a file."}, cat)}}, t.TempDir())
	h.Files("a/b.txt=x = y -> z\n", "l -> a/b.txt", "empty=", "d/", "eq=l -> a")
	for name, want := range map[string]string{"a/b.txt": "x = y -> z\n", "l": "x = y -> z\n", "empty": "", "eq": "l -> a"} {
		if output, data, _ := tooltest.Do[catData](h, "cat", map[string]any{"file": name}); output != want || data.Size != len(want) {
			t.Errorf("%s: %q, %+v", name, output, data)
		}
	}
	if info, err := os.Stat(h.Path("d")); err != nil || !info.IsDir() {
		t.Errorf("%v, %v", info, err)
	}
	h.Refuses("cat", map[string]any{"file": "d"}, tool.InvalidArguments, "directory")
	h.Refuses("cat", map[string]any{"file": "none"}, tool.NotFound, "none")
}
