package branches

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/sdk/tool"
)

// TestBranchesOfPrincipals checks which branches of other principals a principal can see and change: over MCP, over
// HTTP, and through the Go library.
func TestBranchesOfPrincipals(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	p := hosttest.NewPrincipals(t, branchToolOn+`
principal "alice" {}
principal "bob" {}
principal "boss" {
  role        = "approver"
  answers_for = ["alice"]
}
principal "root" { role = "administrator" }
`)
	clients := make(map[string]*hosttest.Client)
	for _, name := range []string{"alice", "bob", "boss", "root"} {
		clients[name] = p.As(name)
	}
	alice, bob, boss, root := clients["alice"], clients["bob"], clients["boss"], clients["root"]
	in := func(c *hosttest.Client, branch, command string) string {
		t.Helper()
		s := hosttest.Connect(t, hosttest.Eras[2], &mcp.StreamableClientTransport{Endpoint: p.Base + "/mcp", HTTPClient: &http.Client{Transport: hosttest.Bearer(c.Token)}}, nil, nil)
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "bash", Arguments: map[string]any{"command": command}, Meta: mcp.Meta{"toolhost.dev/branch": branch}})
		hosttest.Must(t, err)
		return hosttest.Text(t, res)
	}
	// Two principals can use the same branch name. Each of them has its own branch.
	if got := in(alice, "feature", "echo alice > mine; cat mine"); !strings.Contains(got, "alice") {
		t.Fatalf("alice's command printed %q", got)
	}
	if got := in(bob, "feature", "ls; echo bob > bobs"); strings.Contains(got, "mine") {
		t.Errorf("bob's branch has a file of alice's: %q", got)
	}
	for command, want := range map[string]string{"branch diff feature": "+bob", "branch list": "feature  1 path,"} {
		if got := bob.Output(`{"command":"` + command + `"}`); !strings.Contains(got, want) || strings.Contains(got, "alice") {
			t.Errorf("%s of bob printed %q", command, got)
		}
	}
	id := func(c *hosttest.Client) string {
		t.Helper()
		var all []struct{ ID, Name, Owner string }
		hosttest.Must(t, json.Unmarshal([]byte(c.Want(200, "", "GET", "/v1/branches", "")), &all))
		for _, b := range all {
			if b.Name == "feature" {
				return b.ID
			}
		}
		return ""
	}
	ofAlice, ofBob := id(alice), id(bob)
	if ofAlice == "" || ofBob == "" || ofAlice == ofBob {
		t.Fatalf("the branches are %q and %q", ofAlice, ofBob)
	}
	// By name, a principal reaches only its own branches. By id, it can reach a branch of another principal only with a
	// right that alice and bob do not have.
	bob.Want(200, "bobs", "GET", "/v1/branches/feature", "")
	if text := bob.Want(200, "", "GET", "/v1/branches/feature", ""); strings.Contains(text, "mine") {
		t.Errorf("bob sees alice's change: %s", text)
	}
	bob.Want(404, "No branch has the id", "GET", "/v1/branches/"+ofAlice, "")
	for _, do := range []string{"apply", "discard"} {
		bob.Want(403, "", "POST", "/v1/branches/"+ofAlice+"/"+do, "")
		boss.Want(403, "", "POST", "/v1/branches/"+ofAlice+"/"+do, "")
	}
	boss.Want(404, "", "GET", "/v1/branches/"+ofBob, "")
	boss.Want(200, "+alice", "GET", "/v1/branches/"+ofAlice, "")
	if text := bob.Want(200, "", "GET", "/v1/branches", ""); strings.Contains(text, ofAlice) {
		t.Errorf("bob's list has alice's branch: %s", text)
	}

	ofLibrary(t, p, clients, ofAlice, ofBob)

	// An administrator can apply the branch of another principal. The apply changes no other branch.
	root.Want(200, `"path":"mine"`, "POST", "/v1/branches/"+ofAlice+"/apply", "")
	if got, err := os.ReadFile(filepath.Join(p.Dir, "mine")); err != nil || string(got) != "alice\n" {
		t.Errorf("the workspace has %q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "bobs")); err == nil {
		t.Error("the apply of alice's branch made bob's change")
	}
	bob.Want(200, "", "POST", "/v1/branches/feature/discard", "")
	alice.Want(200, `"changes":[]`, "GET", "/v1/branches/feature", "")
}

// ofLibrary is the part of TestBranchesOfPrincipals for the Go library. It uses a separate host.
func ofLibrary(t *testing.T, p *hosttest.Principals, clients map[string]*hosttest.Client, ofAlice, ofBob string) {
	t.Helper()
	h, err := host.New(t.Context(), host.Options{Config: filepath.Join(p.Dir, "toolhost.hcl"), BundledDir: filepath.Join(hosttest.Bin, "plugins"), Workspace: p.Dir, StateDir: p.Dir + ".state"})
	hosttest.Must(t, err)
	defer h.Close()
	who := func(name string) *host.Principal {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		hosttest.Must(t, err)
		r.Header.Set("Authorization", "Bearer "+clients[name].Token)
		out, err := h.Directory().Authenticate(r)
		hosttest.Must(t, err)
		return out
	}
	alice, bob := who("alice"), who("bob")
	sees := func(of *host.Principal, what string) bool {
		all, err := h.Branches(of)
		hosttest.Must(t, err)
		for _, b := range all {
			if b.ID == what {
				return true
			}
		}
		return false
	}
	for name, want := range map[string][2]bool{"alice": {true, false}, "bob": {false, true}, "boss": {true, false}, "root": {true, true}} {
		if got := [2]bool{sees(who(name), ofAlice), sees(who(name), ofBob)}; got != want {
			t.Errorf("%s sees alice's branch: %t, and bob's: %t; want %v", name, got[0], got[1], want)
		}
	}
	unknown := func(what string, err error) {
		t.Helper()
		if failed := (*tool.Error)(nil); !errors.As(err, &failed) || failed.Kind != tool.NotFound {
			t.Errorf("%s: %v, want an error of the kind not_found", what, err)
		}
	}
	_, _, _, err = h.BranchWithID(bob, ofAlice, 1000)
	unknown("bob reads alice's branch", err)
	_, err = h.ApplyBranchWithID(t.Context(), bob, ofAlice, false)
	unknown("bob applies alice's branch", err)
	unknown("bob discards alice's branch", h.DiscardBranchWithID(t.Context(), bob, ofAlice))
	unknown("alice discards bob's branch", h.DiscardBranchWithID(t.Context(), alice, ofBob))
	changes, diff, err := h.BranchChanges(host.Request{Principal: bob, Branch: "feature"}, 1000)
	if err != nil || len(changes) != 1 || changes[0].Path != "bobs" || strings.Contains(diff, "alice") {
		t.Errorf("bob's branch changes %+v, %v:\n%s", changes, err, diff)
	}
	if res := h.Run(t.Context(), host.Request{Principal: bob, Branch: "feature", Command: "cat mine"}, nil); res.Success() {
		t.Errorf("bob reads alice's file: %s", res.Output)
	}
	if err := h.ReleaseBranch(host.Request{Principal: bob, Branch: "feature"}); err != nil {
		t.Error(err)
	}
}

// TestApplyNeedsApprover checks that an apply over HTTP needs the decision of the approver, who sees the diff. Nothing
// must be applied if the branch or the changed files of the workspace change while the approver decides.
func TestApplyNeedsApprover(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	p := hosttest.NewPrincipals(t, branchToolOn+"principal \"alice\" {}\nprincipal \"bob\" {}\nprincipal \"boss\" { role = \"approver\" }\n")
	alice, bob, boss := p.As("alice"), p.As("bob"), p.As("boss")
	change := func(command string) {
		t.Helper()
		if out := alice.Output(fmt.Sprintf(`{"command":%q,"branch":"b"}`, command)); out != "" {
			t.Errorf("%s printed %q", command, out)
		}
	}
	notes := func(want string) {
		t.Helper()
		if b, _ := os.ReadFile(filepath.Join(p.Dir, "notes.txt")); string(b) != want {
			t.Errorf("the workspace has %q, want %q", b, want)
		}
	}
	// apply applies the branch. It calls meanwhile before the approver answers.
	apply := func(outcome, diff string, meanwhile func()) string {
		t.Helper()
		done := make(chan string, 1)
		go func() { done <- alice.Output(`{"command":"branch apply b"}`) }()
		var list []struct {
			ID, Digest string
			Permission tool.Permission
		}
		hosttest.Wait(t, "the ask", func() bool {
			list = nil
			hosttest.Must(t, json.Unmarshal([]byte(boss.Want(200, "", "GET", "/v1/asks", "")), &list))
			return len(list) == 1
		})
		if !strings.Contains(diffOf(&list[0].Permission), diff) || list[0].Permission.Kind != "branch" {
			t.Errorf("the approver sees %+v, want %q", list[0], diff)
		}
		notes("one\ntwo\n")
		bob.Want(404, "", "POST", "/v1/asks/"+list[0].ID, fmt.Sprintf(`{"outcome":"accepted","digest":%q}`, list[0].Digest))
		meanwhile()
		boss.Want(200, outcome, "POST", "/v1/asks/"+list[0].ID, fmt.Sprintf(`{"outcome":%q,"digest":%q}`, outcome, list[0].Digest))
		return <-done
	}
	wants := func(got, want string) {
		t.Helper()
		if !strings.Contains(got, want) {
			t.Errorf("branch apply printed %q, want %q", got, want)
		}
	}
	change("echo three >> notes.txt")
	wants(apply("declined", "+three", func() {}), "decided by a person")
	wants(apply("accepted", "+three", func() { change("echo unseen > other") }), "while a person decided, something changed")
	change("rm other")
	wants(apply("accepted", "+three", func() { hosttest.Must(t, os.Chmod(filepath.Join(p.Dir, "notes.txt"), 0o640)) }), "while a person decided, something changed")
	notes("one\ntwo\n")
	hosttest.Must(t, os.Chmod(filepath.Join(p.Dir, "notes.txt"), 0o600))
	wants(apply("accepted", "+three", func() {}), "Applied 1 change of the branch b")
	notes("one\ntwo\nthree\n")
	if _, err := os.Stat(filepath.Join(p.Dir, "other")); err == nil {
		t.Error("a change was applied that the approver did not see")
	}
}

// TestSessionsOfBranches checks that session "a" in branch "fix1" shares no state with session "a+fix1". It also checks
// which branch a session gets from the configuration. Earlier versions made branches with short names. Only the session
// that has used such a branch gets it.
func TestSessionsOfBranches(t *testing.T) {
	t.Parallel()
	h, ws, state := branchHost(t, map[string]string{"d/x": "x\n", "e/x": "x\n"})
	run := func(h *host.Host, session, branch, command string) string {
		t.Helper()
		res := h.Run(t.Context(), host.Request{Command: command, Branch: branch, Session: session}, nil)
		if !res.Success() {
			t.Errorf("%s in session %q, branch %q: %s", command, session, branch, said(res))
		}
		return strings.TrimSpace(res.Output)
	}
	hosttest.NeedsNamespaces(t)
	run(h, "a", "fix1", "cd d")
	run(h, "a+fix1", "", "cd e")
	run(h, "a+fix1+", "", "true")
	for _, c := range []struct{ session, branch, want string }{{"a", "fix1", "/d"}, {"a+fix1", "", "/e"}, {"a+fix1+", "", ""}, {"a", "", ""}} {
		if got := run(h, c.session, c.branch, "pwd"); got != ws+c.want {
			t.Errorf("session %q in branch %q is in %s, want %s", c.session, c.branch, got, ws+c.want)
		}
	}
	short := func(session string) string {
		sum := sha256.Sum256([]byte(session))
		return "session-" + hex.EncodeToString(sum[:4])
	}
	run(h, "old", short("old"), "echo old > old")
	run(h, "other", short("new"), "echo other > other")
	for _, name := range []string{short("old"), short("new")} {
		hosttest.Must(t, h.ReleaseBranch(host.Request{Branch: name}))
	}
	config := filepath.Join(t.TempDir(), "own.hcl")
	hosttest.Must(t, os.WriteFile(config, []byte("workspace { mode = \"branch\" }\n"), 0o600))
	own, err := host.New(t.Context(), host.Options{Config: config, BundledDir: filepath.Join(hosttest.Bin, "plugins"), Workspace: ws, StateDir: state})
	hosttest.Must(t, err)
	defer own.Close()
	if got := run(own, "old", "", "ls"); got != "d\ne\nold" {
		t.Errorf("the session with a branch of an earlier version sees %q", got)
	}
	if got := run(own, "new", "", "ls"); got != "d\ne" {
		t.Errorf("another session sees %q", got)
	}
}

// TestBranchOfLinkedWorktree checks that a session in a branch is told once that git's data is not in the branch,
// because the workspace is a linked worktree.
func TestBranchOfLinkedWorktree(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	h, ws, _ := branchHost(t, map[string]string{"x": "x\n"})
	inBranch(t, h, "before", "ls", "x\n")
	repository := filepath.Join(filepath.Dir(ws), "repository")
	out, err := exec.Command("sh", "-ec", `git init -q "$0"; cd "$0"; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one; git worktree add -q linked; mv linked/.git "$1"`, repository, ws).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(branch string) string {
		t.Helper()
		return said(h.Run(t.Context(), host.Request{Command: "ls -a", Branch: branch}, nil))
	}
	want := "The git directory of the workspace, " + filepath.Join(repository, ".git/worktrees/linked") + ", is outside of it and not in the branch b."
	if got := run("b"); !strings.Contains(got, want) {
		t.Errorf("the first call printed %q, want %q", got, want)
	}
	for _, branch := range []string{"b", ""} {
		if got := run(branch); strings.Contains(got, "The git directory") {
			t.Errorf("a later call in the branch %q printed %q", branch, got)
		}
	}
}
