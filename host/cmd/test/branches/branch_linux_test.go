package branches

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tooltest/need"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
	"toolhost.dev/host/cmd/test/hosttest"
)

// branchHost creates a workspace with the given files, and opens a host with the real plugins for it.
func branchHost(t *testing.T, files map[string]string) (h *host.Host, ws, state string) {
	t.Helper()
	dir := t.TempDir()
	ws, state = filepath.Join(dir, "ws"), filepath.Join(dir, "state")
	writeFiles(t, ws, files)
	h, err := host.New(t.Context(), host.Options{BundledDir: filepath.Join(hosttest.Bin, "plugins"), Workspace: ws, StateDir: hosttest.KeptState(t, state), Live: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, ws, state
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// inBranch runs a command in a branch, and checks that its output or its error message contains a text.
func inBranch(t *testing.T, h *host.Host, branch, command, want string) {
	t.Helper()
	res := h.Run(t.Context(), host.Request{Command: command, Branch: branch}, nil)
	got := res.Output
	if res.Error != nil {
		got = res.Error.Message
	}
	if !strings.Contains(got, want) {
		t.Errorf("%s in branch %q printed %q, want %q", command, branch, got, want)
	}
}

// indexed waits until grep uses its index in a branch. Grep can miss a change only when it uses the index.
func indexed(t *testing.T, h *host.Host, branch string) {
	t.Helper()
	for range 500 {
		res := h.Run(t.Context(), host.Request{Command: "grep nothing", Branch: branch}, nil)
		if res.Metadata["index"] == "ready" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("grep does not use an index")
}

// TestBaseChangesDuringBranch checks that the next call of every tool sees changes of the workspace that are made while
// a branch is mounted.
func TestBaseChangesDuringBranch(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	h, ws, _ := branchHost(t, map[string]string{"a": "old\n", "d/gone": "gone\n", "d/in": "in place\n"})
	look := func(a, late, gone string) {
		t.Helper()
		inBranch(t, h, "b", "read a", a)
		inBranch(t, h, "b", "cat a", a)
		inBranch(t, h, "b", "read d/late", map[bool]string{true: late, false: "does not exist"}[late == "late"])
		inBranch(t, h, "b", "cat d/late 2>&1 || true", late)
		inBranch(t, h, "b", "read d/gone", map[bool]string{true: gone, false: "does not exist"}[gone == "gone"])
		inBranch(t, h, "b", "cat d/gone", gone)
		inBranch(t, h, "b", "grep "+a, "a:1:"+a)
		inBranch(t, h, "b", "test -e own && echo own", "own")
	}
	inBranch(t, h, "b", "touch own", "")
	look("old", "No such file", "gone")
	indexed(t, h, "b")
	writeFiles(t, ws, map[string]string{"t": "new\n", "d/late": "late\n", "d/in": "changed\n"})
	if err := os.Rename(filepath.Join(ws, "t"), filepath.Join(ws, "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(ws, "d/gone")); err != nil {
		t.Fatal(err)
	}
	look("new", "late", "o such file")
	inBranch(t, h, "b", "grep late", "d/late:1:late")
	inBranch(t, h, "b", "grep changed", "d/in:1:changed")
	inBranch(t, h, "b", "cat d/in", "changed")
	indexed(t, h, "b") // grep must use its index again
	// New directories and moved directories must also be watched.
	for _, content := range []string{"1", "2", "3"} {
		writeFiles(t, ws, map[string]string{"n/m/t": content})
		hosttest.Must(t, os.Rename(filepath.Join(ws, "n/m/t"), filepath.Join(ws, "n/m/f")))
		inBranch(t, h, "b", "cat n/m/f; echo; ls n/m", content+"\nf\n")
		inBranch(t, h, "b", "grep ^"+content, "n/m/f:1:"+content)
	}
	hosttest.Must(t, os.Rename(filepath.Join(ws, "n"), filepath.Join(ws, "moved")))
	inBranch(t, h, "b", "ls n 2>/dev/null || cat moved/m/f", "3")
	inBranch(t, h, "b", "grep ^3", "moved/m/f:1:3")
	writeFiles(t, ws, map[string]string{"t": "4"})
	hosttest.Must(t, os.Rename(filepath.Join(ws, "t"), filepath.Join(ws, "moved/m/f")))
	inBranch(t, h, "b", "grep ^4", "moved/m/f:1:4")
	inBranch(t, h, "b", "cat moved/m/f", "4")
	// A write through a memory mapping causes no event until the file is closed.
	open, err := os.OpenFile(filepath.Join(ws, "d/in"), os.O_RDWR, 0)
	hosttest.Must(t, err)
	_, err = open.WriteString("written")
	hosttest.Must(t, err)
	inBranch(t, h, "b", "grep written", "d/in:1:written")
	mapped, err := unix.Mmap(int(open.Fd()), 0, 7, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	hosttest.Must(t, err)
	copy(mapped, "through")
	inBranch(t, h, "b", "grep through", "d/in:1:through")
	hosttest.Must(t, errors.Join(unix.Munmap(mapped), open.Close()))
	inBranch(t, h, "b", "grep through", "d/in:1:through")
	indexed(t, h, "b")
	// The branch can change a file that was changed in the workspace.
	inBranch(t, h, "b", "echo branch >> a; cat a", "new\nbranch")
	if b, err := os.ReadFile(filepath.Join(ws, "a")); err != nil || string(b) != "new\n" {
		t.Errorf("the workspace has %q, %v", b, err)
	}
}

// treeOf describes a directory tree: types, modes, targets of links, contents and attributes.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	c := exec.Command("sh", "-c", `find . -printf '%p %y %m %l %n\n' | sed 's/ \([0-9]*\)$/ /' | LC_ALL=C sort; find . -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum`)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// randomScript returns a script of n random file operations. The script ignores operations that fail.
func randomScript(r *rand.Rand, n int) string {
	names := []string{"a", "b", "d/a", "d/b", "d/e/a", "d/e/f/a", "e", "e/x", "'sp ace'", "d/n", "g/h/i", "g"}
	pick := func() string { return names[r.IntN(len(names))] }
	var b strings.Builder
	for i := range n {
		p, q := pick(), pick()
		// The result of copying a directory into itself depends on the order of its entries.
		if q == p || strings.HasPrefix(q, p+"/") {
			q = "other"
		}
		ops := []string{
			fmt.Sprintf("mkdir -p $(dirname %[1]s) && echo %[2]d > %[1]s", p, i), fmt.Sprintf("echo %d >> %s", i, p), "rm -rf " + p, "mkdir -p " + p, fmt.Sprintf("mv -T %s %s", p, q), fmt.Sprintf("cp -a -T %s %s", p, q),
			fmt.Sprintf("ln -sfn ../%s %s", q, p), fmt.Sprintf("chmod %o %s", []int{0o600, 0o755, 0o444, 0o711}[r.IntN(4)], p), fmt.Sprintf("rm -rf %[1]s && mkdir -p %[1]s && echo %[2]d > %[1]s/new", p, i),
			fmt.Sprintf("echo %d > t%d && mv t%[2]d %s", i, i, p), "truncate -s 0 " + p, "rmdir " + p,
		}
		fmt.Fprintf(&b, "( %s ) 2>/dev/null\n", ops[r.IntN(len(ops))])
	}
	return b.String() + "true\n"
}

// TestAppliedBranchEqualsDirectory runs the same random operations in a directory and in a branch that is then applied.
// Both trees must be equal. After a revert, the workspace must be as it was before the apply.
func TestAppliedBranchEqualsDirectory(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	h, ws, state := branchHost(t, map[string]string{"a": "1\n", "d/a": "2\n", "d/b": "3\n", "d/e/a": "4\n", "d/e/f/a": "5\n", "e": "6\n", "g/h/i": "7\n", "sp ace": "8\n"})
	before := treeOf(t, ws)
	b, err := admin.OpenBranches(host.Options{BundledDir: filepath.Join(hosttest.Bin, "plugins"), Workspace: ws, StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for seed := range uint64(6) {
		script := randomScript(rand.New(rand.NewPCG(seed, 1)), 50)
		direct := filepath.Join(t.TempDir(), "direct")
		if out, err := exec.Command("cp", "-a", ws, direct).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		c := exec.Command("bash", "-c", "umask 022\n"+script)
		c.Dir = direct
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		name := fmt.Sprintf("p%d", seed)
		inBranch(t, h, name, "umask 022\n"+script, "")
		if now := treeOf(t, ws); now != before {
			t.Fatalf("seed %d: the branch changed the workspace:\n%s\nbefore:\n%s", seed, now, before)
		}
		if seed == 0 {
			if _, err := b.Apply(t.Context(), name, admin.ApplyOptions{}); err == nil {
				t.Fatal("a branch was applied while a host has it mounted")
			}
		}
		hosttest.Must(t, h.ReleaseBranch(host.Request{Branch: name}))
		if _, err := b.Apply(t.Context(), name, admin.ApplyOptions{}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got, want := treeOf(t, ws), treeOf(t, direct); got != want {
			t.Fatalf("seed %d: after the apply, the tree is\n%s\nand the tree of the directory is\n%s\nscript:\n%s", seed, got, want, script)
		}
		if _, err := b.Revert(t.Context(), name); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got := treeOf(t, ws); got != before {
			t.Fatalf("seed %d: after the revert, the tree is\n%s\nand it was\n%s\nscript:\n%s", seed, got, before, script)
		}
		if err := b.Discard(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeniedPathsInBranch checks that a branch never shows a path that the configuration denies, whatever changes are
// made in the branch and in the workspace.
func TestDeniedPathsInBranch(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	writeFiles(t, ws, map[string]string{
		"config.hcl": "permissions {\n paths { deny = [\"**/*.env\"] }\n}\n", "a.env": "SECRET", "d/b.env": "SECRET", "e/c.env": "SECRET", "e/f/x": "x", "h/c.env": "SECRET", "real": "SECRET", "d/plain": "p",
		"probe": "f=$1/$2${3-.env}; if test -e $f; then read -r x < $f; echo $x; else echo none; fi 2>&1\n", // its arguments name no denied path
	})
	hosttest.Must(t, os.Symlink("real", filepath.Join(ws, "link.env")))
	hosttest.Must(t, os.Link(filepath.Join(ws, "d/b.env"), filepath.Join(ws, "e/hard")))
	h, err := host.New(t.Context(), host.Options{BundledDir: filepath.Join(hosttest.Bin, "plugins"), Workspace: ws, StateDir: hosttest.KeptState(t, filepath.Join(dir, "state")), Config: filepath.Join(ws, "config.hcl")})
	hosttest.Must(t, err)
	defer h.Close()
	hidden := func(when string) {
		t.Helper()
		for _, name := range []string{"b", "other"} { // the branch "b" is already in use
			res := h.Run(t.Context(), host.Request{Command: "grep -rs SECRET . ; cat *.env */*.env real e/hard 2>/dev/null; true", Branch: name}, nil)
			if res.Error != nil || strings.Contains(res.Output, "SECRET") {
				t.Errorf("%s: branch %s shows %q, %v", when, name, res.Output, res.Error)
			}
		}
		for _, path := range []string{"a.env", "d/late.env", "real"} {
			if res := h.Run(t.Context(), host.Request{Command: "read " + path, Branch: "b"}, nil); strings.Contains(res.Output, "SECRET") {
				t.Errorf("%s: read shows %s", when, path)
			}
		}
	}
	inBranch(t, h, "b", "touch d/x h/x; cat d/plain", "p")
	time.Sleep(250 * time.Millisecond) // the search for denied paths skips only directories that have not changed recently
	hidden("at first")
	// Looking for a missing name makes the kernel cache that it is missing in the branch. A refresh clears this cache.
	inBranch(t, h, "b", "bash probe d seen", "none")
	writeFiles(t, ws, map[string]string{"d/seen.env": "SECRET"})
	time.Sleep(200 * time.Millisecond) // time for the watcher, which does not see the new file in the branch
	hidden("after a file with a name that the branch did not have")
	seenByRunning(t, h, ws)
	// The branch now has its own copy of the directory d. The times of this copy do not change when the directory in
	// the workspace changes.
	writeFiles(t, ws, map[string]string{"d/late.env": "SECRET", "e/f/late.env": "SECRET", "n/new.env": "SECRET"})
	hidden("after new files in the workspace")
	inBranch(t, h, "b", "find . -name 'link*' -delete; mkdir -p g; cp -r e/f g/; mv d/plain d/moved", "")
	inBranch(t, h, "third", "find . -name 'link*' -delete; ls", "real")
	hosttest.Must(t, errors.Join(h.ReleaseBranch(host.Request{Branch: "b"}), h.ReleaseBranch(host.Request{Branch: "third"})))
	hidden("after the branch was mounted again")
	inBranch(t, h, "third", "ls; cat real 2>&1; true", "ermission denied")
	writeFiles(t, ws, map[string]string{"t": "SECRET"})
	hosttest.Must(t, os.Rename(filepath.Join(ws, "t"), filepath.Join(ws, "a.env")))
	hosttest.Must(t, os.Rename(filepath.Join(ws, "e"), filepath.Join(ws, "d/e")))
	hidden("after renames in the workspace")
}

// seenByRunning checks that a command in the branch "b" cannot read denied files that appear while it runs: a new file,
// a hard link to this file, and a file in a renamed directory. Meanwhile, a call of another plugin refreshes the
// branch.
func seenByRunning(t *testing.T, h *host.Host, ws string) {
	t.Helper()
	printed := make(chan string, 1)
	go func() {
		res := h.Run(t.Context(), host.Request{Command: "bash probe d during; touch g1; until grep -q new d/plain; do sleep 0.05; done; bash probe d during; bash probe moved c; bash probe d named ''", Branch: "b", Session: "runs"}, nil)
		printed <- said(res)
	}()
	hosttest.Wait(t, "the command runs", func() bool { return h.Run(t.Context(), host.Request{Command: "read g1", Branch: "b"}, nil).Success() })
	writeFiles(t, ws, map[string]string{"d/during.env": "SECRET"})
	time.Sleep(200 * time.Millisecond)
	hosttest.Must(t, os.Rename(filepath.Join(ws, "h"), filepath.Join(ws, "moved")))
	hosttest.Must(t, os.Link(filepath.Join(ws, "d/during.env"), filepath.Join(ws, "d/named")))
	time.Sleep(200 * time.Millisecond)
	inBranch(t, h, "b", "read d/plain", "p")
	inBranch(t, h, "b", "edit d/plain --old_string p --new_string new", "")
	if text := <-printed; strings.Contains(text, "SECRET") || !strings.Contains(text, "none") || !strings.Contains(text, "ermission denied") {
		t.Errorf("a running command printed %q", text)
	}
}

// TestKilledHostLeavesProcess checks that no other host uses the layer of a branch while a process of a killed host
// still mounts this layer. Otherwise, the kernel would mount the layer twice.
func TestKilledHostLeavesProcess(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	if _, err := exec.LookPath("nsenter"); err != nil {
		need.Missing(t, "nsenter is not installed")
	}
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	writeFiles(t, ws, map[string]string{"a": "a"})
	command := func(args ...string) *exec.Cmd {
		c := hosttest.Command(append([]string{"--state", hosttest.KeptState(t, filepath.Join(dir, "state"))}, args...)...)
		c.Dir = ws
		return c
	}
	first := command("--branch", "b", "batch")
	in, err := first.StdinPipe()
	hosttest.Must(t, err)
	out, err := first.StdoutPipe()
	hosttest.Must(t, err)
	hosttest.Must(t, first.Start())
	_, err = in.Write([]byte(`{"id":1,"command":"echo first > f"}` + "\n"))
	hosttest.Must(t, err)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, `"success":true`) {
		t.Fatal(line, err)
	}
	var late *exec.Cmd // a process in which the branch is mounted, and which does not end when the host ends
	for _, p := range hosttest.Descendants() {
		if p.Parent() != first.Process.Pid {
			continue
		}
		pid := strconv.Itoa(p.PID)
		if mounts, err := os.ReadFile("/proc/" + pid + "/mountinfo"); err == nil && strings.Contains(string(mounts), " - overlay toolhost-branch-") {
			late = exec.Command("nsenter", "-t", pid, "-U", "-m", "--preserve-credentials", "sleep", "60")
			if late.Start() == nil {
				break
			}
		}
	}
	if late == nil {
		t.Fatal("no process has the branch mounted")
	}
	time.Sleep(300 * time.Millisecond) // time for nsenter to start the program
	hosttest.Must(t, first.Process.Kill())
	_ = first.Wait()
	for _, args := range [][]string{{"run", "--branch", "b", "cat f"}, {"branch", "apply", "b"}, {"branch", "discard", "b"}} {
		if text, err := command(args...).CombinedOutput(); err == nil || !strings.Contains(string(text), fmt.Sprintf("in use by the process %d", late.Process.Pid)) {
			t.Errorf("%v while a process has the layer mounted: %v\n%s", args, err, text)
		}
	}
	hosttest.Must(t, late.Process.Kill())
	_ = late.Wait()
	if text, err := command("run", "--branch", "b", "cat f").CombinedOutput(); err != nil || !strings.Contains(string(text), "first") {
		t.Errorf("after the process ended: %v\n%s", err, text)
	}
}

// TestBranchWithoutBase checks a mounted branch when its workspace is moved, replaced or unmounted, and when the
// process that holds the mount is killed. Each call must either work or fail with a clear error, and no file may be
// lost.
func TestBranchWithoutBase(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	h, ws, _ := branchHost(t, map[string]string{"a": "a"})
	inBranch(t, h, "b", "echo kept > f; cat f a", "kept")
	moved := ws + "-moved"
	hosttest.Must(t, os.Rename(ws, moved))
	inBranch(t, h, "b", "cat f", "If it was moved, move it back")
	hosttest.Must(t, os.Mkdir(ws, 0o755))
	inBranch(t, h, "b", "cat f", "is not the one over which the branch b was made")
	if entries, err := os.ReadDir(ws); err != nil || len(entries) > 0 {
		t.Errorf("the other directory has %v, %v", entries, err)
	}
	hosttest.Must(t, errors.Join(os.Remove(ws), os.Rename(moved, ws)))
	inBranch(t, h, "b", "cat f a", "kept\na")

	// The workspace is a volume that somebody unmounts.
	if err := unix.Mount(ws, ws, "", unix.MS_BIND, ""); err == nil {
		hosttest.Must(t, h.ReleaseBranch(host.Request{Branch: "b"}))
		inBranch(t, h, "b", "cat f a", "kept\na")
		hosttest.Must(t, errors.Join(unix.Unmount(ws, unix.MNT_DETACH), os.Rename(ws, moved), os.Mkdir(ws, 0o755)))
		inBranch(t, h, "b", "cat f", "is not the one over which the branch b was made")
		hosttest.Must(t, unix.Mount(moved, ws, "", unix.MS_BIND, ""))
		inBranch(t, h, "b", "cat f a", "kept\na")
		hosttest.Must(t, errors.Join(unix.Unmount(ws, unix.MNT_DETACH), os.Remove(ws), os.Rename(moved, ws)))
		inBranch(t, h, "b", "cat f a", "kept\na")
	}

	killed := false
	for _, p := range hosttest.Descendants() {
		ours := false // other tests also have processes that hold mounts
		for fd := range 16 {
			path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.PID, fd))
			ours = ours || strings.HasPrefix(path, filepath.Dir(ws)+"/")
		}
		if ours && strings.Contains(p.Command(), "toolhost-sandbox hold ") {
			hosttest.Must(t, syscall.Kill(p.PID, syscall.SIGKILL))
			killed = true
		}
	}
	if !killed {
		t.Fatal("no process holds the branch")
	}
	time.Sleep(50 * time.Millisecond)
	inBranch(t, h, "b", "cat f a; echo again > g", "kept\na")
	inBranch(t, h, "b", "read g", "again")
}

// TestBranchOfOtherOwners checks calls of an ordinary user in a branch with files of other owners. In the workspace,
// the user may change these files. In the branch, the kernel refuses the changes with a confusing error, so the result
// must contain a note that explains it.
func TestBranchOfOtherOwners(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	if os.Geteuid() != 0 {
		need.Missing(t, "only root can make files of two owners")
	}
	const user = 1000
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	writeFiles(t, ws, map[string]string{"shared": "theirs\n", "own": "own\n", "d/f": "f\n"})
	hosttest.Must(t, errors.Join(os.Chown(dir, user, user), os.Chown(ws, user, user), os.Chown(filepath.Join(ws, "own"), user, user), os.Chmod(filepath.Join(ws, "shared"), 0o666), os.Chmod(filepath.Join(ws, "d"), 0o777)))
	for _, at := range []string{dir, hosttest.Bin} { // the user must reach the directories of the test
		for ; at != filepath.Clean(os.TempDir()) && at != "/"; at = filepath.Dir(at) {
			info, err := os.Stat(at)
			hosttest.Must(t, err)
			hosttest.Must(t, os.Chmod(at, info.Mode()|0o011))
		}
	}
	hosttest.Must(t, os.Chmod(filepath.Join(hosttest.Bin, "plugins"), 0o755))
	run := func(args ...string) string {
		c := hosttest.Command(append([]string{"--state", filepath.Join(dir, "state")}, args...)...)
		c.Dir, c.Env = ws, append(os.Environ(), "HOME="+dir)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		text, _ := c.CombinedOutput()
		return string(text)
	}
	// The order matters, because the last command replaces the file that the second command uses.
	for _, c := range []struct{ command, want string }{
		{"echo x >> own; cat own", "own\nx"},
		{"echo x >> shared", "files and directories of other owners or groups cannot be changed. Replace the file with a copy"},
		{"touch d/new", "files and directories of other owners or groups cannot be changed"},
		{"cp shared s.new && mv s.new shared && echo y >> shared && cat shared", "theirs\ny"},
	} {
		if got := run("run", "--branch", "b", c.command); !strings.Contains(got, c.want) {
			t.Errorf("%s printed %q, want %q", c.command, got, c.want)
		}
	}
	if got := run("branch", "apply", "b"); !strings.Contains(got, "Applied 2 changes") {
		t.Errorf("the apply printed %q", got)
	}
	if text, err := os.ReadFile(filepath.Join(ws, "shared")); err != nil || string(text) != "theirs\ny\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// TestApplyOnFullDisk checks that applying a branch on a full disk makes either all changes or none, and that no data
// is lost.
func TestApplyOnFullDisk(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		need.Missing(t, fmt.Sprint("only root can mount a small disk: ", err))
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	ws := filepath.Join(dir, "ws")
	for i := range 300 {
		writeFiles(t, ws, map[string]string{fmt.Sprintf("d/%d", i): "old"})
	}
	toolhost := func(args ...string) (string, error) {
		c := hosttest.Command(append([]string{"--state", hosttest.KeptState(t, filepath.Join(dir, "state"))}, args...)...)
		c.Dir = ws
		text, err := c.CombinedOutput()
		return string(text), err
	}
	if text, err := toolhost("run", "--branch", "b", "for i in $(seq 0 299); do echo new > d/$i; done; rm d/7; echo x > fresh"); err != nil {
		need.Missing(t, "a file system in memory cannot have a branch: "+text)
	}
	before := treeOf(t, ws)
	filler := filepath.Join(dir, "filler")
	fill(t, filler)
	failed, done := 0, false
	// With each amount of free space, a different write fails.
	for free := int64(0); !done && free < 3<<20; free += 16 << 10 {
		info, err := os.Stat(filler)
		hosttest.Must(t, err)
		hosttest.Must(t, os.Truncate(filler, max(info.Size()-16<<10, 0)))
		text, err := toolhost("branch", "apply", "b")
		if done = err == nil; done {
			if !strings.Contains(text, "Applied 301 changes") {
				t.Errorf("the apply with %d free bytes: %s", free, text)
			}
			continue
		}
		failed++
		if !strings.Contains(text, "no space left on device") && !strings.Contains(text, "free on the disk") {
			t.Errorf("the apply with %d free bytes: %s", free, text)
		}
		if now := treeOf(t, ws); now != before {
			t.Fatalf("the apply with %d free bytes changed the workspace. It printed %s. The tree has %d lines, and had %d", free, text, strings.Count(now, "\n"), strings.Count(before, "\n"))
		}
	}
	if failed < 2 || !done {
		t.Errorf("%d applies failed, and one succeeded: %t", failed, done)
	}
	hosttest.Must(t, os.Remove(filler))
	if text, err := toolhost("branch", "revert", "b"); err != nil || treeOf(t, ws) != before {
		t.Errorf("the revert: %v\n%s", err, text)
	}
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	hosttest.Must(t, err)
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); err != nil {
			hosttest.Must(t, f.Close())
			return
		}
	}
}
