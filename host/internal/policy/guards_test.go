package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/tooltest/need"
)

func inWorkspace(ws string, words ...string) *policy.Execution {
	x := execution(ws, words...)
	x.Workspace, x.Call = ws, &tool.Call{Cwd: ws, Roots: []tool.Root{{Path: ws, Writable: true}}}
	return x
}

// TestLoaderUnderOtherNames checks that the policy judges the program that a dynamic linker loads. The linker can have
// another name, or git itself can start it.
func TestLoaderUnderOtherNames(t *testing.T) {
	_, ws := project(t)
	p := policy.New(policy.Rules{})
	x := inWorkspace(ws, "/tmp/y", "/usr/bin/rm", "-rf", ".")
	x.File = "/lib64/ld-linux-x86-64.so.2"
	if j := p.JudgeExecution(x); j.Effect != policy.Ask || j.Loads != "/usr/bin/rm" {
		t.Errorf("a link to the linker: %+v", j)
	}
	x = inWorkspace(ws, "/lib64/ld-linux-x86-64.so.2", "/usr/lib/git-core/git", "reset", "--hard")
	x.Before = "/usr/bin/git"
	if j := p.JudgeExecution(x); j.Effect != policy.Ask {
		t.Errorf("git by the linker: %+v", j)
	}
}

// TestCopies checks that a copy of a program is judged as the program itself.
func TestCopies(t *testing.T) {
	_, ws := project(t)
	original, err := exec.LookPath("rm")
	if err != nil {
		need.Missing(t, err)
	}
	if original, err = filepath.EvalSymlinks(original); err != nil {
		t.Fatal(err)
	}
	content := policy.Fingerprint(original)
	if content == "" {
		need.Missing(t, original+" has no fingerprint")
	}
	other, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*policy.Policy{
		"open": policy.New(policy.Rules{}), "operator": rules(t, policy.Rules{NoBuiltin: true, Rules: []policy.Rule{rule(policy.Ask, "rm *")}}),
		"by path": rules(t, policy.Rules{NoBuiltin: true, Rules: []policy.Rule{rule(policy.Ask, original+" *")}}), "by pattern": rules(t, policy.Rules{NoBuiltin: true, Rules: []policy.Rule{rule(policy.Ask, "r? *")}}),
	} {
		x := inWorkspace(ws, filepath.Join(ws, "x"), "-rf", ".")
		if j := p.JudgeExecution(x); j.Effect != policy.Allow {
			t.Errorf("%s: a program of an unknown kind: %s", name, j.Effect)
		}
		if x.Fingerprint = policy.Fingerprint(other); p.JudgeExecution(x).Effect != policy.Allow {
			t.Errorf("%s: another program: %s", name, p.JudgeExecution(x).Effect)
		}
		if x.Fingerprint = content; p.JudgeExecution(x).Effect != policy.Ask {
			t.Errorf("%s: a copy is not judged as the program: %s", name, p.JudgeExecution(x).Effect)
		}
	}
	if find, err := exec.LookPath("find"); err == nil {
		x := inWorkspace(ws, filepath.Join(ws, "x"), ".", "-delete")
		if x.Fingerprint = policy.Fingerprint(find); policy.New(policy.Rules{}).JudgeExecution(x).Effect != policy.Ask {
			t.Error("a copy of find is not judged as find")
		}
	}
	// An allow rule for rm must not allow a copy of rm.
	x := inWorkspace(ws, filepath.Join(ws, "x"), "f")
	x.Fingerprint = content
	if j := rules(t, policy.Rules{AllowList: true, Rules: []policy.Rule{rule(policy.Allow, "rm *")}}).JudgeExecution(x); j.Effect != policy.Deny {
		t.Errorf("a copy of a listed program: %s", j.Effect)
	}
}

// TestLimitsOfJudgements checks that file operations and directory entries count. A command beyond a limit needs a
// confirmation.
func TestLimitsOfJudgements(t *testing.T) {
	_, ws := project(t)
	p := policy.New(policy.Rules{})
	remove := func(count int) []string {
		words := []string{"/usr/bin/rm", "-rf"}
		for i := range count {
			words = append(words, fmt.Sprintf("x%d", i))
		}
		return words
	}
	restore := policy.LimitOperations(100)
	if j := p.JudgeExecution(inWorkspace(ws, remove(200)...)); j.Effect != policy.Ask || !strings.Contains(j.Reason, "Name fewer files") {
		t.Errorf("too many files: %s", j.Effect)
	}
	restore()
	if j := p.JudgeExecution(inWorkspace(ws, remove(200)...)); j.Effect != policy.Allow {
		t.Errorf("many files: %s", j.Effect)
	}
	x := inWorkspace(ws, "/usr/bin/rm", "-rf", "x0", "x1", "x2")
	x.Files = crowded{entries: 60_000}
	defer policy.LimitOperations(50_000)()
	if j := p.JudgeExecution(x); j.Effect != policy.Ask {
		t.Errorf("a directory with too many entries: %s", j.Effect)
	}
	policy.LimitOperations(2_000_000)
	x.Files = crowded{entries: 1 << 30}
	if j := p.JudgeExecution(x); j.Effect != policy.Ask { // the directory can have more entries than maxEntries
		t.Errorf("a directory whose entries were not all read: %s", j.Effect)
	}
	x = inWorkspace(ws, "/usr/bin/git", "checkout", "--", "x?y*")
	x.Files = crowded{entries: 1 << 30}
	if j := p.JudgeExecution(x); j.Effect != policy.Ask {
		t.Errorf("a pattern in a directory whose entries were not all read: %s", j.Effect)
	}
	x = inWorkspace(ws, "/usr/bin/find", "src", "-name", "x.go", "-delete")
	x.Files = broken{}
	if j := policy.New(policy.Rules{Careful: true}).JudgeExecution(x); j.Effect != policy.Ask {
		t.Errorf("files that cannot be examined: %s", j.Effect)
	}
}

// crowded is a file system in which each directory has the same number of entries.
type crowded struct {
	broken
	entries int
}

func (crowded) Follow(path string) (string, error) { return path, nil }

func (crowded) Lstat(path string) (device, inode uint64, dir bool, err error) {
	if filepath.Base(path) == "HEAD" {
		return 0, 0, false, os.ErrNotExist
	}
	sum := fnv.New64()
	_, _ = sum.Write([]byte(path))
	return 1, sum.Sum64(), true, nil
}

func (c crowded) Names(_ string, limit int) ([]string, error) {
	if limit == 1 {
		return []string{"x"}, nil
	}
	out := make([]string, min(limit, c.entries))
	for i := range out {
		out[i] = ".hidden"
	}
	return out, nil
}

// TestDirectoryOfCall checks that the working directory of a call is judged as the directory of a cd command.
func TestDirectoryOfCall(t *testing.T) {
	home, ws := project(t)
	in := func(dir, text string) *policy.Request {
		req := command(t, ws, text)
		req.Args["cwd"] = json.RawMessage(fmt.Sprintf("%q", dir))
		return req
	}
	if d := policy.New(policy.Rules{}).Judge(in("..", "rm -rf *")); !strings.Contains(d.Rule, "remove-system") {
		t.Errorf("%s is removed: %s %s", home, d.Effect, d.Rule)
	}
	p := rules(t, policy.Rules{Rules: []policy.Rule{{Effect: policy.Deny, Name: "docs", Paths: []string{"docs"}}}})
	for dir, want := range map[string]policy.Effect{"docs": policy.Deny, "src": policy.Allow, "src/../docs": policy.Deny, ws + "/docs": policy.Deny} {
		if d := p.Judge(in(dir, "ls")); d.Effect != want {
			t.Errorf("ls in %s: %s, wanted %s", dir, d.Effect, want)
		}
	}
}

// TestUnknownPathsAreCompared checks that a path rule that is too long for a comparison leads to a question.
func TestUnknownPathsAreCompared(t *testing.T) {
	p := rules(t, policy.Rules{Rules: []policy.Rule{{Effect: policy.Deny, Name: "long", Paths: []string{"**/" + strings.Repeat("a", 2000)}}}})
	for text, want := range map[string]policy.Effect{`cat "$X"` + strings.Repeat("b", 2000): policy.Ask, `cat "$X"b`: policy.Allow} {
		if d := p.Judge(command(t, "/work/space", text)); d.Effect != want {
			t.Errorf("%.20s: %s, wanted %s", text, d.Effect, want)
		}
	}
}

// TestDetailsOfLists checks each condition under which a program counts as listed.
func TestDetailsOfLists(t *testing.T) {
	p := rules(t, policy.Rules{AllowList: true, Rules: []policy.Rule{rule(policy.Allow, "ls *"), {Effect: policy.Ask, Name: "all", Kinds: []string{policy.KindBash}}}})
	as := func(x *policy.Execution, name string) *policy.Execution { x.Args[0] = name; return x }
	for name, x := range map[string]*policy.Execution{
		"the same name elsewhere": execution("/work/space", "/opt/x/ls"), "a wrapper under another name": as(execution("/work/space", "/usr/bin/env", "f"), "touch"),
		"a script of busybox with an unknown name": execution("/work/space", "/bin/busybox", "sh", "-c", "$x y"), "a script of busybox that cannot be parsed": execution("/work/space", "/bin/busybox", "sh", "-c", "("), "an ask about all commands": execution("/work/space", "/usr/bin/touch", "f"),
	} {
		if j := p.JudgeExecution(x); j.Effect != policy.Deny {
			t.Errorf("%s: %s %s", name, j.Effect, j.Rule)
		}
	}
	if j := p.JudgeExecution(execution("/work/space", "/usr/bin/ls")); j.Effect != policy.Ask {
		t.Errorf("a listed program that is asked about: %s", j.Effect)
	}
}

// TestAnswersAreAboutRules checks that a stored answer about a command does not apply to another rule for the same
// command.
func TestAnswersAreAboutRules(t *testing.T) {
	ctx := context.Background()
	yes, no := &peer{answer: tool.Answer{Outcome: tool.Accepted}}, &peer{answer: tool.Answer{Outcome: tool.Declined}}
	first := rules(t, policy.Rules{Rules: []policy.Rule{{Effect: policy.Ask, Name: "first", Commands: []string{"git push *"}}}})
	second := rules(t, policy.Rules{Rules: []policy.Rule{{Effect: policy.Ask, Name: "second", Commands: []string{"git push *"}}}})
	d, err := first.Check(ctx, command(t, "/work/space", "git push origin"), yes, answers{})
	if err != nil {
		t.Fatal(err)
	}
	push := execution("/work/space", "/usr/bin/git", "push", "origin")
	if _, err := policy.ConfirmExecution(ctx, "bash", second.JudgeExecution(push), d, no, answers{}); err == nil || no.asked == nil {
		t.Error("an answer is valid for another rule")
	}
}

// TestCredentialsElsewhere checks that links to credentials, and credential names in unknown directories, need a
// confirmation.
func TestCredentialsElsewhere(t *testing.T) {
	_, ws := project(t)
	if err := os.Symlink(filepath.Join(ws, ".env"), filepath.Join(ws, "harmless")); err != nil {
		t.Fatal(err)
	}
	p := policy.New(policy.Rules{Careful: true})
	for text, want := range map[string]policy.Effect{"cat harmless": policy.Ask, `cd "$X"; cat .env`: policy.Ask, `cd "$X"; cat x`: policy.Allow} {
		if d := p.Judge(command(t, ws, text)); d.Effect != want {
			t.Errorf("%s: %s, wanted %s", text, d.Effect, want)
		}
	}
}
