package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
)

type peer struct {
	tool.Peer
	answer tool.Answer
	err    error
	asked  *tool.Ask
}

func (p *peer) Ask(_ context.Context, a tool.Ask) (tool.Answer, error) {
	p.asked = &a
	return p.answer, p.err
}

var schema = func() *tool.Schema {
	s, err := tool.ParseSchema(json.RawMessage(`{"type":"object","properties":{"in":{"type":"string","x-toolhost-path":"read"},
		"out":{"type":"string","x-toolhost-path":"write"},"all":{"type":"array","items":{"type":"string"},"x-toolhost-path":"read"},"text":{"type":"string"}}}`))
	if err != nil {
		panic(err)
	}
	return s
}()

// tree creates a directory with the subdirectories root, root-evil and readonly. The directory root contains links.
func tree(t *testing.T) string {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"root/sub", "root/.ssh", "root-evil", "readonly", "root/inner"} {
		if err := os.MkdirAll(filepath.Join(top, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"root/a", "root/.ssh/key", "root-evil/x", "readonly/r", "secret"} {
		if err := os.WriteFile(filepath.Join(top, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"root/out": "..", "root/file-out": "../secret", "root/abs-out": top + "/secret", "root/in": "sub", "root/loop": "loop2", "root/loop2": "loop", "root/self": ".",
		"root/dangling": "nowhere", "root/dangling-out": "../nowhere", "root/chain": "in2", "root/in2": "out", "root/keys": ".ssh", "root/deep": "sub/../../secret", "alias": "root",
	} {
		if err := os.Symlink(to, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

func check(p *policy.Policy, call *tool.Call, param, path string) error {
	raw, err := json.Marshal(path)
	if err != nil {
		return err
	}
	return run(p, &tool.Definition{Name: "x"}, call, map[string]json.RawMessage{param: raw}, &peer{})
}

func run(p *policy.Policy, def *tool.Definition, call *tool.Call, args map[string]json.RawMessage, peer *peer) error {
	_, err := p.Check(context.Background(), &policy.Request{Name: def.Name, Definition: def, Schema: schema, Call: call, Args: args, Workspace: call.Cwd}, peer, answers{})
	return err
}

// answers contains stored answers. The key consists of the kind, the tool and the subject of a permission request.
type answers map[[3]string]bool

func (a answers) Recall(kind, tool, subject string) (policy.Remembered, bool) {
	allow, known := a[[3]string{kind, tool, subject}]
	return policy.Remembered{Allow: allow, Origin: "answer 3"}, known
}

func (a answers) Remember(kind, tool, subject string, allow, _ bool) error {
	a[[3]string{kind, tool, subject}] = allow
	return nil
}

func TestPaths(t *testing.T) {
	top := tree(t)
	call := &tool.Call{Cwd: top + "/root", Roots: []tool.Root{{Path: top + "/root", Writable: true}, {Path: top + "/readonly"}, {Path: top + "/root/inner"}}}
	t.Setenv("HOME", top+"/root")
	const none, security, denied, invalid = tool.Kind(""), tool.Security, tool.PermissionDenied, tool.InvalidArguments
	for _, tc := range []struct {
		path              string
		contained, strict tool.Kind
	}{
		{"a", none, none}, {"./a", none, none}, {"sub/../a", none, security}, {top + "/root/a", none, none}, {top + "/root", none, none}, {".", none, none},
		{"new/file", none, none}, {"~/a", none, none}, {"~", none, none}, {"~other/a", none, none}, {"a..b", none, none}, {"...", none, none},
		{"", invalid, invalid}, {"a\x00b", security, security}, {"/etc/passwd\x00a", security, security},
		{"..", security, security}, {"../secret", security, security}, {"sub/../../secret", security, security}, {"../root-evil/x", security, security},
		{top + "/root-evil/x", security, security}, {top + "/root-evil", security, security}, {top + "/roo", security, security}, {"/", security, security}, {"/etc/passwd", security, security},
		{top + "/root/../root-evil/x", security, security}, {top + "//root///a", none, none},
		{"out", security, security}, {"out/secret", security, security}, {"file-out", security, security}, {"abs-out", security, security}, {"deep", security, security},
		{"chain/secret", security, security}, {"self/self/out/secret", security, security}, {"dangling-out", security, security}, {"out/new", security, security},
		{"loop", security, security}, {"loop/x", security, security},
		{"in", none, security}, {"in/new", none, security}, {"dangling", none, security}, {"self/a", none, security}, {strings.Repeat("self/", 30) + "a", none, security},
		{strings.Repeat("self/", 60) + "a", security, security},
		{"a/b", none, none}, // "a" is a file; the tool reports the error
		{strings.Repeat("x/", 2000) + "y", none, none}, {strings.Repeat("y", 5000), none, none},
		{top + "/readonly/r", none, none},
	} {
		for mode, want := range map[bool]tool.Kind{false: tc.contained, true: tc.strict} {
			err := check(policy.New(policy.Rules{Strict: mode}), call, "in", tc.path)
			var e *tool.Error
			switch {
			case want == none && err != nil:
				t.Errorf("%.60q strict %v: %v", tc.path, mode, err)
			case want != none && (!errors.As(err, &e) || e.Kind != want || e.Code != policy.CodePathDenied):
				t.Errorf("%.60q strict %v: %v (%T), wanted %s", tc.path, mode, err, err, want)
			}
		}
	}
	for path, want := range map[string]tool.Kind{"a": none, "new": none, "../readonly/r": denied, "../readonly/new": denied, "inner/x": denied} {
		err := check(policy.New(policy.Rules{}), call, "out", path)
		if e := tool.AsError(err); (e == nil) != (want == none) || e != nil && (e.Kind != want || !strings.Contains(e.Message, "read-only root")) {
			t.Errorf("writing %s: %v", path, err)
		}
	}
	// The policy checks the elements of a list of paths, but not a text parameter.
	if err := check(policy.New(policy.Rules{}), call, "text", "/etc/passwd"); err != nil {
		t.Error(err)
	}
	args := map[string]json.RawMessage{"all": json.RawMessage(`["a","../secret"]`)}
	if err := run(policy.New(policy.Rules{}), &tool.Definition{}, call, args, &peer{}); err == nil {
		t.Error("the second element of a list is not looked at")
	}
	if err := check(policy.New(policy.Rules{}), &tool.Call{Cwd: "/"}, "in", "a"); err == nil || !strings.Contains(err.Error(), "no root is configured") {
		t.Error(err)
	}
	if err := check(policy.New(policy.Rules{}), &tool.Call{Cwd: "/", Roots: []tool.Root{{Path: "/"}}}, "in", "/etc/passwd"); err != nil {
		t.Error(err)
	}
}

func TestGlobs(t *testing.T) {
	top := tree(t)
	call := &tool.Call{Cwd: top + "/root", Roots: []tool.Root{{Path: top + "/root", Writable: true}}}
	deny := policy.New(policy.Rules{Deny: []string{"**/.ssh/**", "**/*.key", top + "/root/in/**"}})
	allow := policy.New(policy.Rules{Allow: []string{top + "/root/**/*.go", top + "/root/a"}, Deny: []string{"**/*_test.go"}})
	for _, tc := range []struct {
		p    *policy.Policy
		path string
		ok   bool
	}{
		{deny, "a", true}, {deny, ".ssh/key", false}, {deny, ".ssh", false}, {deny, ".ssh/new/deeper", false}, {deny, "x.key", false}, {deny, "sub/../x.key", false},
		{deny, "keys/key", false}, // link to a denied file
		{deny, "in/x", false},     // the link itself is denied
		{deny, "sub/x", true},
		{allow, "a", true}, {allow, "x.go", true}, {allow, "sub/deep/x.go", true}, {allow, "x_test.go", false}, {allow, "b", false}, {allow, "a/b", false}, {allow, "x.go/y", false},
	} {
		err := check(tc.p, call, "in", tc.path)
		if (err == nil) != tc.ok || err != nil && tool.AsError(err).Kind != tool.PermissionDenied {
			t.Errorf("%s: %v", tc.path, err)
		}
	}
}

func TestDangerousToolsAreConfirmed(t *testing.T) {
	def := &tool.Definition{Name: "danger", Traits: tool.Traits{Dangerous: true}}
	call := &tool.Call{Cwd: "/", Arguments: json.RawMessage(`{"text":"` + strings.Repeat("é", 500) + `"}`)}
	for _, tc := range []struct {
		answer tool.Answer
		err    error
		kind   tool.Kind
		want   string
	}{
		{tool.Answer{Outcome: tool.Accepted}, nil, "", ""},
		{tool.Answer{Outcome: tool.Declined}, nil, tool.PermissionDenied, "the request was declined"},
		{tool.Answer{Outcome: tool.NobodyToAsk, Message: "There is nobody to ask."}, nil, tool.PermissionDenied, "There is nobody to ask."},
		{tool.Answer{Outcome: tool.AnswerTimeout}, nil, tool.PermissionDenied, "timeout"},
		{tool.Answer{}, nil, tool.PermissionDenied, "was not confirmed"},
		{tool.Answer{Outcome: "odd"}, nil, tool.PermissionDenied, "odd"},
		{tool.Answer{Outcome: tool.Accepted}, context.Canceled, tool.Canceled, ""},
	} {
		p := &peer{answer: tc.answer, err: tc.err}
		err := run(policy.New(policy.Rules{}), def, call, nil, p)
		if e := tool.AsError(err); (e == nil) != (tc.kind == "") || e != nil && (e.Kind != tc.kind || !strings.Contains(e.Message, tc.want)) {
			t.Errorf("%+v: %v", tc.answer, err)
		}
		if ask := p.asked.Permission; ask.Kind != "danger" || len([]rune(ask.Patterns[0])) > 200 {
			t.Errorf("%+v", ask)
		}
	}
	// The policy must not ask a person about a denied path.
	p := &peer{answer: tool.Answer{Outcome: tool.Accepted}}
	if err := run(policy.New(policy.Rules{}), def, call, map[string]json.RawMessage{"in": json.RawMessage(`"/x"`)}, p); err == nil || p.asked != nil {
		t.Errorf("%v %v", err, p.asked)
	}
}
