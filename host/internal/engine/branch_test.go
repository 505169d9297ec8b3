package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/principal"
)

// copies makes branches that are copies of the workspace, which need no support by the kernel.
const copies = "workspace {\n backend = \"copy\"\n}\n"

// write writes a file with a tool, in a branch. An empty branch means the workspace itself.
func (f *fixture) write(branch, path, text string) *tool.Result {
	return f.run(Request{Branch: branch, Session: "a", Name: "write", Arguments: []byte(`{"path":"` + path + `","text":"` + text + `"}`)})
}

// text returns the content of a file of the workspace, or "" if it does not exist.
func (f *fixture) text(path string) string {
	f.t.Helper()
	b, err := os.ReadFile(filepath.Join(f.Dir.Workspace(), path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	return string(b)
}

// TestBranch checks that calls in a branch change the workspace only when the branch is applied.
func TestBranch(t *testing.T) {
	f := begin(t, copies)
	in := Request{Branch: "b", Session: "a"}
	succeeds(t, f.write("", "old.txt", "old"), "written")
	succeeds(t, f.write("b", "new.txt", "new"), "written")
	succeeds(t, f.write("b", "old.txt", "changed"), "written")
	if f.text("new.txt") != "" || f.text("old.txt") != "old" {
		t.Error("a call in a branch changed the workspace")
	}
	changes, diff, err := f.BranchChanges(in, 1<<20)
	if err != nil || len(changes) != 2 || !strings.Contains(diff, "+changed") {
		t.Errorf("%+v, %q, %v", changes, diff, err)
	}
	all, err := f.Branches(f.local)
	if err != nil || len(all) != 1 || all[0].Name != "b" {
		t.Fatalf("%+v, %v", all, err)
	}
	if seen, err := f.Branches(&principal.Principal{Name: "other"}); err != nil || len(seen) != 0 {
		t.Errorf("another principal sees %+v, %v", seen, err)
	}
	if err := f.ReleaseBranch(in); err != nil {
		t.Error(err)
	}
	info, changes, _, err := f.BranchWithID(f.local, all[0].ID, 100)
	if err != nil || info.Name != "b" || len(changes) != 2 {
		t.Errorf("%+v, %+v, %v", info, changes, err)
	}
	if _, err := f.ApplyBranch(t.Context(), in, BranchSelection{}); err != nil {
		t.Fatal(err)
	}
	if f.text("new.txt") != "new" || f.text("old.txt") != "changed" {
		t.Error("the branch was not applied")
	}
	if err := f.DiscardBranch(t.Context(), in); err != nil {
		t.Error(err)
	}
	if none := (*BranchNotFoundError)(nil); !errors.As(f.DiscardBranch(t.Context(), in), &none) {
		t.Error("the branch exists after it was discarded")
	}
	if _, _, _, err := f.BranchWithID(f.local, all[0].ID, 100); err == nil {
		t.Error("the branch has an id after it was discarded")
	}
}

// TestConflict checks that nothing is applied if the workspace changed at the same path.
func TestConflict(t *testing.T) {
	f := begin(t, copies)
	succeeds(t, f.write("b", "x.txt", "branch"), "written")
	succeeds(t, f.write("", "x.txt", "workspace"), "written")
	in := Request{Branch: "b", Session: "a"}
	conflict := (*BranchConflictError)(nil)
	if _, err := f.ApplyBranch(t.Context(), in, BranchSelection{}); !errors.As(err, &conflict) || f.text("x.txt") != "workspace" {
		t.Errorf("%v, content %q", err, f.text("x.txt"))
	}
	if _, err := f.ApplyBranch(t.Context(), in, BranchSelection{Ours: []string{"x.txt"}}); err != nil {
		t.Error(err)
	}
}

// TestPreview checks that a preview shows the changes of a call, and that they are made only when it is applied.
func TestPreview(t *testing.T) {
	f := begin(t, copies)
	succeeds(t, f.call("a", "count", "{}"), "1")
	res := f.run(Request{Session: "a", Preview: true, Name: "write", Arguments: []byte(`{"path":"x.txt","text":"x"}`)})
	succeeds(t, res, "written")
	shown, _ := res.Metadata["preview"].(map[string]any)
	token, _ := shown["token"].(string)
	diff, _ := shown["diff"].(string)
	if token == "" || !strings.Contains(diff, "+x") || f.text("x.txt") != "" {
		t.Fatalf("%+v, content %q", res.Metadata, f.text("x.txt"))
	}
	failsWith(t, f.write(token, "y.txt", "y"), tool.InvalidArguments, "is the name of a preview")
	if _, err := f.ApplyBranch(t.Context(), Request{Branch: token}, BranchSelection{}); err != nil || f.text("x.txt") != "x" {
		t.Errorf("%v, content %q", err, f.text("x.txt"))
	}
	// A preview does not change the session, and leaves nothing behind if the call changes no file.
	before, err := f.Branches(f.local)
	if err != nil {
		t.Fatal(err)
	}
	succeeds(t, f.run(Request{Session: "a", Preview: true, Name: "count", Arguments: []byte("{}")}), "2")
	succeeds(t, f.call("a", "count", "{}"), "2")
	if after, err := f.Branches(f.local); err != nil || len(after) != len(before) {
		t.Errorf("%d branches, and %d before; %v", len(after), len(before), err)
	}
	failsWith(t, f.run(Request{Session: "a", Preview: true, Command: "where " + f.Dir.Workspace()}), tool.InvalidArguments, "Use relative paths")
}

// TestModesOfWorkspaces checks which branch a session gets from the configuration, and who may apply it.
func TestModesOfWorkspaces(t *testing.T) {
	f := begin(t, "workspace {\n backend = \"copy\"\n mode = \"branch\"\n}\n")
	succeeds(t, f.write("", "x.txt", "x"), "written")
	all, err := f.Branches(f.local)
	if err != nil || len(all) != 1 || !strings.HasPrefix(all[0].Name, "session-") || f.text("x.txt") != "" {
		t.Fatalf("%+v, %v", all, err)
	}
	caller := &principal.Principal{Name: f.local.Name, Local: true, Grant: principal.Grant{Rights: principal.Call, Workspaces: []string{"*"}}}
	if _, err := f.ApplyBranch(t.Context(), Request{Session: "a", Principal: caller}, BranchSelection{}); err == nil || !strings.Contains(err.Error(), "needs the right administer") {
		t.Errorf("%v", err)
	}
	if err := f.ReleaseBranch(Request{Session: "a"}); err != nil {
		t.Error(err)
	}
	if _, err := f.ApplyBranchWithID(t.Context(), f.local, all[0].ID, false); err != nil || f.text("x.txt") != "x" {
		t.Errorf("%v, content %q", err, f.text("x.txt"))
	}
	if err := f.DiscardBranchWithID(t.Context(), f.local, all[0].ID); err != nil {
		t.Error(err)
	}
	f.Configure(f.Plugin("p", "") + "workspace {\n mode = \"require\"\n}\n")
	f.reload()
	failsWith(t, f.write("", "x.txt", "x"), tool.PermissionDenied, "requires that every session works in a branch")
}

// TestBusyBranch checks that a branch in which a call runs is neither applied nor discarded.
func TestBusyBranch(t *testing.T) {
	f := begin(t, copies)
	succeeds(t, f.write("b", "x.txt", "x"), "written")
	held := make(chan *tool.Result)
	go func() {
		held <- f.run(Request{Branch: "b", Session: "other", Name: "hold", Arguments: []byte(`{"gate":"g"}`)})
	}()
	<-f.Programs.Gate("g").Reached
	in := Request{Branch: "b", Session: "a"}
	if _, err := f.ApplyBranch(t.Context(), in, BranchSelection{}); err == nil || f.text("x.txt") != "" {
		t.Errorf("%v", err)
	}
	if err := errors.Join(f.DiscardBranch(t.Context(), in)); err == nil {
		t.Error("the branch was discarded")
	}
	f.Programs.Gate("g").Open()
	succeeds(t, <-held, "passed")
	if _, err := f.ApplyBranch(t.Context(), in, BranchSelection{}); err != nil || f.text("x.txt") != "x" {
		t.Errorf("%v", err)
	}
}
