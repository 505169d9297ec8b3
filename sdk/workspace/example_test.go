package workspace_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
	"toolhost.dev/sdk/workspace/text"
)

// Example opens a workspace directly. A handler would get its workspace from its sdk.Call.
func Example() {
	dir, _ := os.MkdirTemp("", "example")
	defer func() { _ = os.RemoveAll(dir) }()
	dir, _ = filepath.EvalSymlinks(dir)
	_ = os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("one\r\ntwo\r\n"), 0o644)

	ws, err := workspace.Open([]tool.Root{{Path: dir, Writable: true}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = ws.Close() }()

	p, err := ws.Resolve(dir, "./notes.txt")
	if err != nil {
		fmt.Println(err)
		return
	}
	snap, err := ws.ReadFile(p, workspace.MaxFileSize)
	if err != nil {
		fmt.Println(err)
		return
	}
	decoded, err := text.Decode(snap.Data)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.RelTo(dir), decoded.Encoding, text.CountLineEndings(decoded.Content).Kind())

	data, err := decoded.Encode(bytes.ReplaceAll(decoded.Content, []byte("two"), []byte("2")))
	if err != nil {
		fmt.Println(err)
		return
	}
	done, err := ws.WriteFile(context.Background(), p, data, workspace.WriteOptions{Expect: snap})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(done.Effect().Operation, done.State.Size)

	_, err = ws.WriteFile(context.Background(), p, data, workspace.WriteOptions{Expect: snap})
	fmt.Println(tool.AsError(err).Kind)
	_, err = ws.Resolve(dir, "../elsewhere")
	fmt.Println(tool.AsError(err).Kind)
	// Output:
	// notes.txt utf8 crlf
	// modify 8
	// conflict
	// security
}

// ExampleOpen opens two roots. A handler would call [sdk.Call.Workspace] to open the roots of its call.
func ExampleOpen() {
	dir, _ := os.MkdirTemp("", "example")
	defer func() { _ = os.RemoveAll(dir) }()
	dir, _ = filepath.EvalSymlinks(dir) // a root must not contain symbolic links
	_ = os.Mkdir(filepath.Join(dir, "docs"), 0o750)
	_ = os.WriteFile(filepath.Join(dir, "docs", "notes.txt"), []byte("one\n"), 0o600)

	// The root is writable. A directory inside it is a second root that is read-only.
	ws, err := workspace.Open([]tool.Root{{Path: dir, Writable: true}, {Path: filepath.Join(dir, "docs")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = ws.Close() }()

	for _, name := range []string{"docs/notes.txt", "new.txt", "../outside.txt"} {
		p, err := ws.Resolve(dir, name)
		if err != nil {
			fmt.Println(name, "is refused:", tool.AsError(err).Kind)
			continue
		}
		fmt.Println(p.RelTo(dir), "exists:", p.Exists(), "writable:", p.Writable())
	}
	// Output:
	// docs/notes.txt exists: true writable: false
	// new.txt exists: false writable: true
	// ../outside.txt is refused: security
}
