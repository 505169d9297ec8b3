package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"toolhost.dev/sandbox"
	"toolhost.dev/sdk/tool"
)

// The command can write in its root, and sees no other file of the user. The program calls [sandbox.Init] at the
// beginning of main.
func ExampleStart() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	work, secret := filepath.Join(dir, "work"), filepath.Join(dir, "secret")
	if err := os.Mkdir(work, 0o700); err != nil {
		fmt.Println(err)
	}
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		fmt.Println(err)
	}

	cmd := exec.Command("/bin/sh", "-c", `echo written > file; cat file; cat "$0" 2>/dev/null || echo hidden`, secret)
	cmd.Dir, cmd.Stdout, cmd.Stderr = work, os.Stdout, os.Stderr
	profile := sandbox.Profile{WriteRoots: true, StartProcesses: true}
	err = sandbox.Start(cmd, profile, sandbox.Place{Roots: []tool.Root{{Path: work, Writable: true}}})
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// written
	// hidden
}
