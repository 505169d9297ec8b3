package branches

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/sdk/tape"
	"toolhost.dev/sdk/tool"
)

// writable makes a directory outside of the workspace that does not count as temporary, and returns a configuration in
// which commands can write there.
func writable(t *testing.T) (dir, config string) {
	t.Helper()
	home, err := os.UserHomeDir()
	hosttest.Must(t, err)
	here, err := os.Getwd()
	hosttest.Must(t, err)
	for _, at := range []string{home, here, "/srv", "/opt"} {
		if temporary := regexp.MustCompile(`^(/tmp|/var/tmp|/dev/shm)(/|$)|/\.cache(/|$)`); temporary.MatchString(at) {
			continue
		}
		if dir, err = os.MkdirTemp(at, "toolhost-outside-"); err == nil {
			break
		}
	}
	if dir == "" {
		t.Skip("all directories that this user can write count as temporary")
	}
	t.Cleanup(func() { hosttest.Must(t, os.RemoveAll(dir)) })
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "kept"), []byte("the work of a week\n"), 0o600))
	return dir, fmt.Sprintf("permissions { policy = \"careful\" }\nplugin \"bash\" {\n sandbox { write = [%q] }\n}\n", dir)
}

// TestLossOutsideOfWorkspaceAsksFirst checks that a command which removes files outside of the workspace does not run
// before the answer. Neither a preview nor a branch would hold it back.
func TestLossOutsideOfWorkspaceAsksFirst(t *testing.T) {
	t.Parallel()
	dir, config := writable(t)
	file := filepath.Join(dir, "kept")
	_, ws, run := previewHost(t, config, map[string]string{"one": "the work of a week\n", "list": file + "\n", "s.sh": "cd " + dir + "; rm kept\n", "kept": "x\n"})
	hosttest.Must(t, os.Symlink(dir, filepath.Join(ws, "link")))
	for _, branch := range []string{"", "b"} {
		for _, command := range []string{"rm " + file, "cd " + dir + "; rm kept", "rm one link/kept", "xargs rm < list", "rm one $(cat list)", "find " + dir + " -name kept -delete", "rm kept; sh s.sh"} {
			a := &approver{answer: tool.Declined, before: func() {
				if _, err := os.Stat(file); err != nil {
					t.Errorf("branch %q: %s: before the answer: %v", branch, command, err)
				}
			}}
			run(a, branch, command)
			if _, err := os.Stat(file); err != nil || len(a.asks) == 0 {
				t.Fatalf("branch %q: %s: %d asks, then %v", branch, command, len(a.asks), err)
			}
		}
	}
	a := &approver{answer: tool.Accepted}
	if res := run(a, "", "rm "+file); !res.Success() || len(a.asks) != 1 || diffOf(a.asks[0]) != "" {
		t.Errorf("accepted: %d asks, %s", len(a.asks), said(res))
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("an accepted command removed nothing")
	}
}

// TestPreviewAsksAboutOtherTools checks that the diff of a command answers no permission request about a tool that the
// command calls, because a preview does not hold back what other tools do.
func TestPreviewAsksAboutOtherTools(t *testing.T) {
	t.Parallel()
	h, _, run := previewHost(t, "permissions {\n ask \"all\" {\n  tool = [\"bash\", \"todo\"]\n  show = \"diff\"\n }\n}\n", map[string]string{"a": "one\n"})
	var shown []string
	a := &approver{answer: tool.Declined}
	a.before = func() { shown = append(shown, diffOf(a.asks[len(a.asks)-1])) }
	const call = `echo two >> a; tool:todo '[{"content":"x","status":"pending","priority":"high"}]'; echo $?`
	if res := run(a, "", call); res.Success() {
		t.Error(said(res))
	}
	if len(a.asks) != 2 || a.asks[0].Metadata["tool"] != "todo" || shown[0] != "" || !strings.Contains(shown[1], "+two") {
		t.Errorf("%d asks: %+v, %q", len(a.asks), a.asks, shown)
	}
	hosttest.Wait(t, "the audit log", func() bool {
		got := auditOf(t, h)
		return strings.Contains(got, "declined in the preview of its parent") && strings.Contains(got, "declined after a preview")
	})
}

// TestDeclinedCallIsNotOnTape checks that a tape has only the calls that counted. A replay accepts all permission
// requests, so it would run a declined command.
func TestDeclinedCallIsNotOnTape(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h, _, run := previewHost(t, showDiff+fmt.Sprintf("record {\n dir = %q\n}\n", dir), map[string]string{"a": "one\n"})
	for outcome, command := range map[tool.Outcome]string{tool.Declined: "echo declined >> a", tool.Accepted: "echo accepted >> a"} {
		if res := run(&approver{answer: outcome}, "", command); res.Success() != (outcome == tool.Accepted) {
			t.Errorf("%s: %s", command, said(res))
		}
	}
	hosttest.Must(t, h.Close())
	tapes, err := filepath.Glob(filepath.Join(dir, "*"))
	hosttest.Must(t, err)
	if len(tapes) != 1 {
		t.Fatal(tapes)
	}
	on, err := tape.Open(tapes[0])
	hosttest.Must(t, err)
	if len(on.Calls) != 1 || !strings.Contains(string(on.Calls[0].Arguments), "echo accepted") {
		t.Errorf("the tape has %+v", on.Calls)
	}
}

// TestPreviewNeedsSandbox checks that a command does not run before the answer if no sandbox keeps it from the
// workspace.
func TestPreviewNeedsSandbox(t *testing.T) {
	t.Parallel()
	_, ws, run := previewHost(t, showDiff+"workspace { backend = \"copy\" }\nplugin \"bash\" {\n sandbox { enforce = \"off\" }\n}\n", map[string]string{"one": "the work of a week\n"})
	dir, name := filepath.Split(ws)
	a := &approver{answer: tool.Declined}
	if res := run(a, "", fmt.Sprintf("d=%s; rm $d%s/one", dir, name)); res.Success() || len(a.asks) != 1 || diffOf(a.asks[0]) != "" {
		t.Errorf("%d asks: %+v, %s", len(a.asks), a.asks, said(res))
	}
	if _, err := os.Stat(filepath.Join(ws, "one")); err != nil {
		t.Errorf("before the answer: %v", err)
	}
}

// TestNeverIsNotYes checks that "never" does not apply a branch, whatever the outcome of the answer is.
func TestNeverIsNotYes(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	if out := d.alice.Output(`{"command":"rm one","branch":"work"}`); out != "" {
		t.Fatal(out)
	}
	done := d.begin("POST", "/v1/branches/work/apply", "")
	ask, _ := d.ask("the ask of the apply")
	d.root.Want(200, "accepted", "POST", "/v1/asks/"+ask, `{"outcome":"accepted","values":["never"]}`)
	var out struct{ Error *tool.Error }
	hosttest.Must(t, json.Unmarshal([]byte(<-done), &out))
	if out.Error == nil || out.Error.Kind != tool.PermissionDenied {
		t.Errorf("the answer never: %+v", out)
	}
	d.remains("after the answer never", "one", true)
}

// TestPreviewOfBranchNeedsNoAnswer checks that a preview of a branch is applied to the branch without a question, and
// that the branch then waits for the answer.
func TestPreviewOfBranchNeedsNoAnswer(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	if out := d.alice.Output(`{"command":"echo x > new","branch":"work"}`); out != "" {
		t.Fatal(out)
	}
	d.alice.Want(200, `"token"`, "POST", "/v1/run", `{"command":"rm one","branch":"work","preview":true}`)
	name, _ := d.branchID("preview-")
	d.alice.Want(200, `"into":"work"`, "POST", "/v1/branches/"+name+"/apply", "")
	done := d.begin("POST", "/v1/branches/work/apply", "")
	ask, _ := d.ask("the ask of the apply")
	d.answer(ask, "declined")
	if out := <-done; !strings.Contains(out, "permission_denied") {
		t.Error(out)
	}
	d.remains("declined", "one", true)
}
