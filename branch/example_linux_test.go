package branch_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"toolhost.dev/branch"
	"toolhost.dev/branch/change"
	"toolhost.dev/sandbox"
)

// A command changes files in a branch, and the directory stays as it is until the branch is applied. The program calls
// [sandbox.Init] at the beginning of main.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	work, state := filepath.Join(dir, "work"), filepath.Join(dir, "state")
	if err := os.Mkdir(work, 0o700); err != nil {
		fmt.Println(err)
	}
	if err := os.WriteFile(filepath.Join(work, "old"), []byte("old\n"), 0o600); err != nil {
		fmt.Println(err)
	}

	branches := branch.Open(state)
	defer branches.Close()
	b, err := branches.Store.Make("", work, "try", branch.Backend{})
	if err != nil {
		fmt.Println(err)
		return
	}
	cmd := exec.Command("/bin/sh", "-c", "cat old; rm old; echo new > made")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := branches.Run(cmd, b, sandbox.Profile{WriteRoots: true, StartProcesses: true}); err != nil {
		fmt.Println(err)
	}
	changes, err := b.Changes()
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range changes {
		fmt.Println(change.Describe(c))
	}
	fmt.Println("before:", names(work))

	branches.Release(b.ID()) // an apply needs a branch that is not mounted
	if _, err := branches.Store.Apply(b, branch.Selection{}); err != nil {
		fmt.Println(err)
	}
	fmt.Println("applied:", names(work))
	if _, err := branches.Store.Revert(b); err != nil {
		fmt.Println(err)
	}
	fmt.Println("reverted:", names(work))
	if err := errors.Join(branches.Store.Discard(b), branches.Store.Clean(0)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// old
	// new file made (4 bytes)
	// deleted file old
	// before: [old]
	// applied: [made]
	// reverted: [old]
}

// names returns the names in a directory.
func names(dir string) (out []string) {
	all, err := os.ReadDir(dir)
	if err != nil {
		fmt.Println(err)
	}
	for _, e := range all {
		out = append(out, e.Name())
	}
	return out
}
