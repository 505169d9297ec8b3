package branches

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/sdk/tool"
)

const showDiff = `
permissions {
  ask "commands" {
    tool = "bash"
    show = "diff"
  }
}
`

// approver answers permission requests. It calls the function "before" before each answer.
type approver struct {
	mu     sync.Mutex
	asks   []*tool.Permission
	answer tool.Outcome
	before func()
	output strings.Builder
}

func (a *approver) Progress(string, map[string]any) {}

func (a *approver) Output(_ tool.Stream, p []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.output.Write(p)
}

func (a *approver) Ask(_ context.Context, ask tool.Ask) (tool.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asks = append(a.asks, ask.Permission)
	if a.before != nil {
		a.before()
	}
	return tool.Answer{Outcome: a.answer}, nil
}

// said returns the output of a result, or its error.
func said(res *tool.Result) string {
	if res.Error != nil {
		return string(res.Error.Kind) + ": " + res.Error.Message
	}
	return res.Output
}

// auditOf returns the answers to permission requests in the audit log.
func auditOf(t *testing.T, h *host.Host) string {
	t.Helper()
	entries, err := h.Log(host.LogQuery{Limit: 100})
	hosttest.Must(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Answered)
	}
	return strings.Join(out, "\n")
}

func diffOf(p *tool.Permission) string {
	text, _ := p.Metadata["diff"].(string)
	return text
}

// previewHost opens a host with a configuration, and a workspace with the given files. The function "run" runs a
// command in this host.
func previewHost(t *testing.T, config string, files map[string]string) (h *host.Host, ws string, run func(a *approver, branch, command string) *tool.Result) {
	t.Helper()
	hosttest.NeedsNamespaces(t)
	dir := t.TempDir()
	ws = filepath.Join(dir, "ws")
	writeFiles(t, ws, files)
	hosttest.Must(t, os.WriteFile(filepath.Join(dir, "toolhost.hcl"), []byte(config), 0o600))
	h, err := host.New(t.Context(), host.Options{Config: filepath.Join(dir, "toolhost.hcl"), BundledDir: filepath.Join(hosttest.Bin, "plugins"), Workspace: ws, StateDir: hosttest.KeptState(t, filepath.Join(dir, "state")), Prompt: true, Live: true})
	hosttest.Must(t, err)
	t.Cleanup(func() { hosttest.Must(t, h.Close()) })
	return h, ws, func(a *approver, branch, command string) *tool.Result {
		t.Helper()
		return h.Run(t.Context(), host.Request{Command: command, Branch: branch}, a)
	}
}

// TestAskShowsDiff checks that a permission request shows the changes of a command. A declined command must change
// nothing. An accepted command must make exactly the changes that were shown. The result of the command and the state
// of the shell must be kept.
func TestAskShowsDiff(t *testing.T) {
	t.Parallel()
	h, ws, run := previewHost(t, showDiff, map[string]string{"a": "one\n", "d/x": "x\n", "d/y": "y\n"})
	const command = "cd d; V=set; export V; echo two >> ../a; rm x; echo new > $'n\\e[31m\\nforged'; echo printed"
	before := treeOf(t, ws)
	for _, branch := range []string{"", "b"} {
		deny, allow := &approver{answer: tool.Declined}, &approver{answer: tool.Accepted}
		res := run(deny, branch, command)
		if res.Success() || !strings.Contains(res.Error.Message, "was not confirmed") || deny.output.Len() > 0 {
			t.Errorf("branch %q, denied: %s, printed %q", branch, said(res), deny.output.String())
		}
		if len(deny.asks) != 1 {
			t.Fatalf("branch %q: %d asks", branch, len(deny.asks))
		}
		for _, want := range []string{"+two\n", "# deleted file d/x\n", `new file "d/n\x1b[31m\nforged"`} {
			if got := diffOf(deny.asks[0]); !strings.Contains(got, want) || strings.ContainsRune(got, 0x1b) {
				t.Errorf("branch %q: the diff lacks %q or has terminal controls: %q", branch, want, got)
			}
		}
		if note := fmt.Sprint(deny.asks[0].Metadata["preview"]); !strings.Contains(note, "cannot be undone") {
			t.Error(note)
		}
		if now := treeOf(t, ws); now != before {
			t.Errorf("branch %q: a denied command changed the workspace:\n%s", branch, now)
		}
		if res := run(allow, branch, "echo $V $(pwd); cat a d/x"); res.Output == "" || !strings.HasPrefix(res.Output, ws+"\none\nx\n") {
			t.Errorf("branch %q, after a denied command: %s", branch, said(res))
		}
		res = run(allow, branch, command)
		if !res.Success() || !strings.HasPrefix(res.Output, "printed\n") || !strings.Contains(res.Output, "changes were accepted and made (3)") {
			t.Errorf("branch %q, accepted: %s", branch, said(res))
		}
		if res := run(allow, branch, "echo $V $(pwd); cat ../a; ls"); !strings.HasPrefix(res.Output, "set "+ws+"/d\none\ntwo\nn\x1b[31m\nforged\ny\n") {
			t.Errorf("branch %q, after an accepted command: %s", branch, said(res))
		}
		if branch == "b" {
			continue
		}
		if now := treeOf(t, ws); now == before {
			t.Error("the accepted command changed nothing")
		}
		hosttest.Must(t, os.RemoveAll(ws+"/d"))
		writeFiles(t, ws, map[string]string{"a": "one\n", "d/x": "x\n", "d/y": "y\n"})
		before = treeOf(t, ws)
	}
	if now := treeOf(t, ws); now != before {
		t.Errorf("commands of a branch changed the workspace:\n%s", now)
	}
	if log := auditOf(t, h); strings.Count(log, "declined after a preview") != 2 || strings.Count(log, "once after a preview") < 4 {
		t.Errorf("the audit log: %s", log)
	}
	changes, _, err := h.BranchChanges(host.Request{Branch: "b"}, 1000)
	if err != nil || len(changes) != 3 {
		t.Errorf("%+v, %v", changes, err)
	}
}

// TestAskRefusesChanges checks that an accepted command changes nothing if one of its files was changed while the
// permission request waited.
func TestAskRefusesChanges(t *testing.T) {
	t.Parallel()
	h, ws, run := previewHost(t, showDiff, map[string]string{"a": "one\n", "b": "two\n"})
	change := func() { hosttest.Must(t, os.WriteFile(filepath.Join(ws, "a"), []byte("other\n"), 0o600)) }
	res := run(&approver{answer: tool.Accepted, before: change}, "", "echo more >> a; rm b")
	if res.Success() || res.Error.Kind != tool.Conflict || !strings.Contains(res.Error.Message, "the workspace changed it, too") {
		t.Errorf("%s", said(res))
	}
	if b, err := os.ReadFile(filepath.Join(ws, "a")); err != nil || string(b) != "other\n" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(ws, "b")); err != nil {
		t.Error(err)
	}
	// The same applies in a branch that another session changes meanwhile.
	ok := &approver{answer: tool.Accepted}
	if res := run(ok, "x", "echo 1 > f"); !res.Success() {
		t.Fatalf("%s", said(res))
	}
	meanwhile := func() {
		if res := h.Run(t.Context(), host.Request{Command: "write g 'other'", Branch: "x", Session: "second"}, nil); !res.Success() {
			t.Errorf("%s", said(res))
		}
	}
	if res := run(&approver{answer: tool.Accepted, before: meanwhile}, "x", "rm f"); res.Success() || !strings.Contains(res.Error.Message, "the branch x changed since the preview") {
		t.Errorf("%s", said(res))
	}
	if res := run(ok, "x", "cat f g"); !strings.HasPrefix(res.Output, "1\nother") {
		t.Errorf("%s", said(res))
	}
}

// TestAskListsDeletions checks that a long diff is cut, but still lists all deletions.
func TestAskListsDeletions(t *testing.T) {
	t.Parallel()
	files := map[string]string{"big": "x\n"}
	for i := range 700 {
		files[fmt.Sprintf("d/some-file-with-a-long-name-%03d", i)] = "x\n"
	}
	_, _, run := previewHost(t, "permissions { policy = \"careful\" }\n", files)
	a := &approver{answer: tool.Declined}
	run(a, "", "seq 100000 > big; for i in $(seq 500); do seq 20 > new-$i; done; rm d/*")
	if len(a.asks) != 1 {
		t.Fatalf("%d asks", len(a.asks))
	}
	diff := diffOf(a.asks[0])
	if n := strings.Count(diff, "# deleted file d/some-file"); n != 700 {
		t.Errorf("%d of 700 deletions are listed", n)
	}
	if len(diff) > 700*100+64<<10 || !strings.Contains(diff, "more changes are not shown") || !strings.Contains(diff, "# changed file big") {
		t.Errorf("%d bytes: …%s", len(diff), diff[max(0, len(diff)-500):])
	}
	// A push cannot be undone, so the command must not run before the permission request, and the request has no
	// preview.
	a = &approver{answer: tool.Declined}
	run(a, "", "rm d/*; git push origin main")
	if len(a.asks) != 1 || diffOf(a.asks[0]) != "" || a.asks[0].Metadata["preview"] != nil {
		t.Errorf("%+v", a.asks)
	}
}

// TestPreviewsOverHTTP checks permission requests with a diff, previews and atomic batches over HTTP. A preview is
// applied or discarded by its token. It must not be applied by another principal, or if its changes differ from those
// that were shown.
func TestPreviewsOverHTTP(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	p := hosttest.NewPrincipals(t, "principal \"alice\" {}\nprincipal \"bob\" {}\nprincipal \"boss\" { role = \"approver\" }\n"+showDiff)
	alice, bob, boss := p.As("alice"), p.As("bob"), p.As("boss")
	file := func(name, want string) {
		t.Helper()
		if b, _ := os.ReadFile(filepath.Join(p.Dir, name)); string(b) != want {
			t.Errorf("%s has %q, want %q", name, b, want)
		}
	}
	ask := func(outcome string) string {
		t.Helper()
		done := make(chan string, 1)
		go func() { done <- alice.Output(`{"command":"echo asked > asked; echo printed"}`) }()
		var list []struct {
			ID, Digest string
			Permission tool.Permission
		}
		hosttest.Wait(t, "the ask", func() bool {
			list = nil
			hosttest.Must(t, json.Unmarshal([]byte(boss.Want(200, "", "GET", "/v1/asks", "")), &list))
			return len(list) == 1
		})
		if !strings.Contains(diffOf(&list[0].Permission), "+asked\n") {
			t.Errorf("%+v", list[0])
		}
		file("asked", "")
		boss.Want(200, outcome, "POST", "/v1/asks/"+list[0].ID, fmt.Sprintf(`{"outcome":%q,"digest":%q}`, outcome, list[0].Digest))
		return <-done
	}
	if out := ask("declined"); !strings.Contains(out, "was not confirmed") {
		t.Error(out)
	}
	file("asked", "")
	if out := ask("accepted"); !strings.HasPrefix(out, "printed\n") {
		t.Error(out)
	}
	file("asked", "asked\n")

	preview := func() string {
		t.Helper()
		var res struct {
			Metadata struct{ Preview struct{ Token, Diff string } }
		}
		hosttest.Must(t, json.Unmarshal([]byte(alice.Want(200, "", "POST", "/v1/run", `{"command":"write made 'by a preview'","preview":true}`)), &res))
		if !strings.Contains(res.Metadata.Preview.Diff, "+by a preview") {
			t.Errorf("%+v", res)
		}
		return res.Metadata.Preview.Token
	}
	token := preview()
	file("made", "")
	alice.Want(200, "+by a preview", "GET", "/v1/branches/"+token, "")
	for _, other := range []string{token, "preview-0000000000000000", "..%2f" + token} {
		bob.Want(map[bool]int{true: 404, false: 400}[!strings.Contains(other, "%")], "", "POST", "/v1/branches/"+other+"/apply", "")
	}
	bob.Want(404, "", "POST", "/v1/branches/"+token+"/discard", "")
	bob.Want(404, "", "GET", "/v1/branches/"+token, "")
	boss.Want(403, "needs the right call", "POST", "/v1/branches/"+token+"/apply", "")
	alice.Want(400, "the body is invalid", "POST", "/v1/branches/"+token+"/apply", `{"path":["x"]}`)
	if out := alice.Output(fmt.Sprintf(`{"command":"write made more","branch":%q}`, token)); !strings.Contains(out, "is the name of a preview") {
		t.Error(out)
	}
	// Somebody with write access to the state directory changes the preview after it was shown.
	layers, err := filepath.Glob(filepath.Join(p.Dir+".state", "branches", token+"@*", "upper", "made"))
	if err != nil || len(layers) != 1 {
		t.Fatal(layers, err)
	}
	hosttest.Must(t, os.WriteFile(layers[0], []byte("forged"), 0o600))
	alice.Want(409, "the content of the preview changed since the preview", "POST", "/v1/branches/"+token+"/apply", "")
	alice.Want(200, token, "POST", "/v1/branches/"+token+"/discard", "")
	alice.Want(404, "", "GET", "/v1/branches/"+token, "")
	file("made", "")
	alice.Want(200, `"path":"made"`, "POST", "/v1/branches/"+preview()+"/apply", "")
	file("made", "by a preview\n")

	batch := func(want string, lines ...string) {
		t.Helper()
		out := strings.Split(strings.TrimSpace(alice.Want(200, "", "POST", "/v1/batch?atomic=1", strings.Join(lines, "\n"))), "\n")
		if len(out) != len(lines)+1 || !strings.Contains(out[len(out)-1], want) {
			t.Errorf("%q, want %s", out, want)
		}
	}
	batch(`"outcome":"discarded"`, `{"id":1,"command":"write both 'x'"}`, `{"id":2,"command":"read missing"}`)
	file("both", "")
	batch(`"outcome":"applied"`, `{"id":1,"command":"write both 'x'"}`, `{"id":2,"name":"edit","arguments":{"path":"both","old_string":"x","new_string":"y"}}`)
	file("both", "y\n")
}

// TestMCPShowsDiff checks that a client can answer a permission request that shows a diff, through elicitation.
func TestMCPShowsDiff(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	dir := hosttest.MCPDir(t)
	config := filepath.Join(dir, "toolhost.hcl")
	b, err := os.ReadFile(config)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(config, append(b, showDiff...), 0o600))
	u := &hosttest.User{Reply: &mcp.ElicitResult{Action: "decline"}}
	s := hosttest.Connect(t, hosttest.Eras[0], &mcp.CommandTransport{Command: hosttest.Toolhost(t, dir, "mcp")}, u, nil)
	run := func() string {
		return hosttest.Text(t, hosttest.CallTool(t, s, "bash", map[string]any{"command": "echo 'a\u202eb' > asked; rm notes.txt"}))
	}
	if out := run(); !strings.Contains(out, "was not confirmed") {
		t.Error(out)
	}
	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err != nil {
		t.Error(err)
	}
	u.Mu.Lock()
	u.Reply = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"allow": true}}
	u.Mu.Unlock()
	if out := run(); !strings.Contains(out, "changes were accepted and made (2)") {
		t.Error(out)
	}
	for _, asked := range u.Asked {
		if !strings.Contains(asked, "# deleted file notes.txt") || !strings.Contains(asked, `+a\u202eb`) || !strings.Contains(asked, "cannot be undone") {
			t.Error(asked)
		}
	}
	if len(u.Asked) != 2 {
		t.Errorf("%q", u.Asked)
	}
	names := slices.DeleteFunc([]string{"asked", "notes.txt"}, func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err != nil })
	if !slices.Equal(names, []string{"asked"}) {
		t.Errorf("%q", names)
	}
}

// TestKilledBeforeAnswer kills a host while a permission request with a diff waits. The workspace must be unchanged,
// and the next host must be able to discard the preview.
func TestKilledBeforeAnswer(t *testing.T) {
	t.Parallel()
	hosttest.NeedsNamespaces(t)
	dir := t.TempDir()
	ws := filepath.Join(dir, "ws")
	writeFiles(t, ws, map[string]string{"a": "one\n"})
	config := filepath.Join(dir, "toolhost.hcl")
	hosttest.Must(t, os.WriteFile(config, []byte(showDiff), 0o600))
	args := func(more ...string) []string {
		return append([]string{"--config", config, "--workspace", ws, "--state", hosttest.KeptState(t, filepath.Join(dir, "state"))}, more...)
	}
	before := treeOf(t, ws)
	person, program := hosttest.TerminalPair(t)
	c := hosttest.Command(args("--on-ask", "prompt", "run", "rm a; sleep 1000 & echo new > b")...)
	c.Stdin = program
	file := filepath.Join(dir, "said")
	said, err := os.Create(file)
	hosttest.Must(t, err)
	c.Stderr = said
	hosttest.Must(t, c.Start())
	hosttest.Must(t, said.Close())
	text := ""
	hosttest.Wait(t, "the ask", func() bool {
		b, err := os.ReadFile(file)
		hosttest.Must(t, err)
		text = string(b)
		return strings.Contains(text, "Allow?")
	})
	if !strings.Contains(text, "# deleted file a") || !strings.Contains(text, "+new") {
		t.Error(text)
	}
	hosttest.Must(t, c.Process.Kill())
	_ = c.Wait()
	_ = person.Close()
	if now := treeOf(t, ws); now != before {
		t.Errorf("the workspace changed:\n%s", now)
	}
	run := func(more ...string) string {
		t.Helper()
		out, err := hosttest.Command(args(more...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v %s", more, err, out)
		}
		return string(out)
	}
	name := regexp.MustCompile(`preview-[0-9a-f]+`).FindString(run("branch", "list"))
	run("branch", "discard", name)
	if now := treeOf(t, ws); now != before {
		t.Errorf("the workspace changed:\n%s", now)
	}
}
