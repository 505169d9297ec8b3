package branches

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/sdk/tool"
)

// door is a server in careful mode with a caller, an approver and an administrator.
type door struct {
	*hosttest.Principals
	alice, boss, root *hosttest.Client
}

func newDoor(t *testing.T) *door {
	t.Helper()
	hosttest.NeedsNamespaces(t)
	p := hosttest.NewPrincipals(t, branchToolOn+`
permissions { policy = "careful" }
principal "alice" {}
principal "boss" { role = "approver" }
principal "root" { role = "administrator" }
`)
	for _, name := range []string{"one", "two", "three", "four"} {
		hosttest.Must(t, os.WriteFile(filepath.Join(p.Dir, name), []byte("the work of a week\n"), 0o600))
	}
	return &door{p, p.As("alice"), p.As("boss"), p.As("root")}
}

// remains checks whether a file of the workspace exists.
func (d *door) remains(when, name string, want bool) {
	d.T.Helper()
	if _, err := os.Lstat(filepath.Join(d.Dir, name)); (err == nil) != want {
		d.T.Errorf("%s: the file %s exists: %t, want %t", when, name, err == nil, want)
	}
}

// ask waits for the only open permission request.
func (d *door) ask(what string) (id string, p tool.Permission) {
	d.T.Helper()
	var list []struct {
		ID         string
		Permission tool.Permission
	}
	hosttest.Wait(d.T, what, func() bool {
		list = nil
		hosttest.Must(d.T, json.Unmarshal([]byte(d.boss.Want(200, "", "GET", "/v1/asks", "")), &list))
		return len(list) == 1
	})
	return list[0].ID, list[0].Permission
}

func (d *door) answer(id, outcome string) {
	d.T.Helper()
	d.boss.Want(200, outcome, "POST", "/v1/asks/"+id, fmt.Sprintf(`{"outcome":%q}`, outcome))
}

// none checks that nobody is asked.
func (d *door) none(when string) {
	d.T.Helper()
	if got := strings.TrimSpace(d.boss.Want(200, "", "GET", "/v1/asks", "")); got != "[]" {
		d.T.Errorf("%s: somebody is asked: %s", when, got)
	}
}

// begin starts a request of the caller in the background.
func (d *door) begin(method, path, body string) <-chan string {
	done := make(chan string, 1)
	go func() {
		_, text := d.alice.Do(method, path, body)
		done <- text
	}()
	return done
}

// branchID returns the id of a branch.
func (d *door) branchID(prefix string) (name, id string) {
	d.T.Helper()
	var list []struct{ Name, ID string }
	hosttest.Must(d.T, json.Unmarshal([]byte(d.root.Want(200, "", "GET", "/v1/branches", "")), &list))
	for _, b := range list {
		if strings.HasPrefix(b.Name, prefix) {
			return b.Name, b.ID
		}
	}
	d.T.Fatalf("no branch begins with %s: %+v", prefix, list)
	return "", ""
}

// TestHeldPreviewHasOneDoor checks that only the answer to a permission request makes the changes that it shows. No
// other way to apply the preview works, for the caller and for an administrator.
func TestHeldPreviewHasOneDoor(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	for _, end := range []string{"declined", "accepted"} {
		done := d.begin("POST", "/v1/run", `{"command":"rm one"}`)
		ask, shown := d.ask("the ask of the command")
		if !strings.Contains(diffOf(&shown), "deleted file one") {
			t.Errorf("the ask shows %+v", shown)
		}
		name, id := d.branchID("preview-")
		const why = "only the answer can apply it"
		d.alice.Want(403, why, "POST", "/v1/branches/"+name+"/apply", "")
		d.alice.Want(403, why, "POST", "/v1/branches/"+name+"/apply", `{"paths":["one"]}`)
		d.root.Want(403, why, "POST", "/v1/branches/"+id+"/apply", "")
		if out := d.alice.Output(fmt.Sprintf(`{"command":"branch apply %s","session":"other"}`, name)); !strings.Contains(out, why) {
			t.Errorf("the tool printed %s", out)
		}
		if out := d.alice.Output(fmt.Sprintf(`{"command":"ls","branch":%q}`, name)); !strings.Contains(out, "is the name of a preview") {
			t.Error(out)
		}
		d.remains("before the answer", "one", true)
		d.answer(ask, end)
		out := <-done
		if end == "declined" && !strings.Contains(out, "was not confirmed") {
			t.Errorf("declined: %s", out)
		}
		d.remains(end, "one", end == "declined")
	}
	d.none("at the end")
}

// TestOperatorCannotApplyHeldPreview checks that the operator's command does not apply the preview of a permission
// request, while the request waits.
func TestOperatorCannotApplyHeldPreview(t *testing.T) {
	t.Parallel()
	_, ws, run := previewHost(t, "permissions { policy = \"careful\" }\n", map[string]string{"one": "the work of a week\n"})
	tried := 0
	a := &approver{answer: tool.Declined, before: func() {
		names, err := filepath.Glob(filepath.Join(filepath.Dir(ws), "state", "branches", "preview-*"))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		name, _, _ := strings.Cut(filepath.Base(names[0]), "@")
		c := hosttest.Toolhost(t, ws, "--state", filepath.Join(filepath.Dir(ws), "state"), "branch", "apply", name)
		c.Stderr = nil
		out, err := c.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "only the answer can apply it") {
			t.Errorf("the operator's command: %v, %s", err, out)
		}
		tried++
	}}
	if res := run(a, "", "rm one"); res.Success() || tried != 1 {
		t.Errorf("%d attempts, then %s", tried, said(res))
	}
	if _, err := os.Stat(filepath.Join(ws, "one")); err != nil {
		t.Error(err)
	}
}

// TestBranchesAskAtTheirApply checks that commands in a branch and in a preview lose files there without a question,
// and that then no principal can apply the branch without the answer of an approver. The calls of an atomic batch ask
// at once, because its changes are applied without another question.
func TestBranchesAskAtTheirApply(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	var res struct {
		Success  bool
		Metadata struct{ Preview struct{ Token string } }
	}
	hosttest.Must(t, json.Unmarshal([]byte(d.alice.Want(200, "", "POST", "/v1/run", `{"command":"rm one","preview":true}`)), &res))
	if !res.Success || res.Metadata.Preview.Token == "" {
		t.Fatalf("the preview: %+v", res)
	}
	if out := d.alice.Output(`{"command":"rm -r two","branch":"work"}`); out != "" {
		t.Fatalf("the command in the branch: %s", out)
	}
	d.none("after both commands")
	_, id := d.branchID("work")
	for file, path := range map[string]string{"one": res.Metadata.Preview.Token, "two": "work"} {
		for _, end := range []string{"declined", "accepted"} {
			done := d.begin("POST", "/v1/branches/"+path+"/apply", "")
			ask, shown := d.ask("the ask of the apply")
			if !strings.Contains(diffOf(&shown), "deleted file "+file) || shown.Kind != "branch" {
				t.Errorf("the ask shows %+v", shown)
			}
			d.remains("before the answer", file, true)
			d.answer(ask, end)
			if out := <-done; strings.Contains(out, "permission_denied") != (end == "declined") {
				t.Errorf("%s, %s: %s", path, end, out)
			}
			d.remains(end, file, end == "declined")
		}
	}
	if out := d.alice.Output(`{"command":"rm three","branch":"work"}`); out != "" {
		t.Fatalf("the second command in the branch: %s", out)
	}
	d.root.Want(200, `"path":"three"`, "POST", "/v1/branches/"+id+"/apply", "") // has the right to answer for the caller
	d.remains("an administrator", "three", false)

	done := d.begin("POST", "/v1/batch?atomic=1", `{"id":1,"command":"rm four"}`)
	ask, _ := d.ask("the ask of the atomic batch")
	name, _ := d.branchID("atomic-")
	if out := d.alice.Output(fmt.Sprintf(`{"command":"true","branch":%q}`, name)); out != "" {
		t.Errorf("in the branch of the batch: %s", out)
	}
	d.answer(ask, "declined")
	if out := <-done; !strings.Contains(out, `"outcome":"discarded"`) {
		t.Error(out)
	}
	d.remains("a declined batch", "four", true)
	for _, want := range []string{`"tool":"bash"`, "at the apply of the branch work"} {
		d.root.Want(200, want, "GET", "/v1/log?limit=100", "")
	}
}
