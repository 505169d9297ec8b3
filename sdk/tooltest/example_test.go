package tooltest_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest"
)

// outsideOfTest is a testing.TB for the example, because an example has no *testing.T.
type outsideOfTest struct {
	testing.TB
	dir string
}

func (outsideOfTest) Helper()                  {}
func (outsideOfTest) Context() context.Context { return context.Background() }
func (outsideOfTest) Fatal(a ...any)           { panic(fmt.Sprint(a...)) }
func (o outsideOfTest) TempDir() string        { return o.dir }

func exampleTest() (outsideOfTest, func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	return outsideOfTest{dir: dir}, func() { _ = os.RemoveAll(dir) }
}

func ExampleNew() {
	t, remove := exampleTest() // a real test uses its own *testing.T as t
	defer remove()

	count := sdk.NewTool(sdk.Definition{Name: "count", Description: "Count the bytes of a file."},
		func(_ context.Context, call *sdk.Call, in struct {
			File string `json:"file" path:"read"`
		}) (*sdk.Result, error) {
			ws, err := call.Workspace()
			if err != nil {
				return nil, err
			}
			p, err := ws.Resolve(call.Cwd, in.File)
			if err != nil {
				return nil, err
			}
			s, err := ws.ReadFile(p, 1<<20)
			if err != nil {
				return nil, err
			}
			return sdk.Text(fmt.Sprintf("%d bytes", len(s.Data))), nil
		})
	plugin := sdk.Plugin{Name: "counter", Version: "1.0.0", Tools: []sdk.Tool{count}}

	h := tooltest.New(t, plugin, t.TempDir())
	h.Files("notes.txt=one two three")
	fmt.Println(h.Call("count", map[string]any{"file": "notes.txt"}).Output)
	fmt.Println(h.Call("count", map[string]any{"file": "missing.txt"}).Error.Kind == tool.NotFound)
	fmt.Println(h.Call("count", map[string]any{"fiel": "notes.txt"}).Error.Kind)
	// Output:
	// 13 bytes
	// true
	// invalid_arguments
}
