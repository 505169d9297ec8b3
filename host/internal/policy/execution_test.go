package policy_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
)

// execution returns the execution of a program. The first word is the path of the program, and the other words are its
// arguments.
func execution(dir string, words ...string) *policy.Execution {
	return &policy.Execution{
		Path: words[0], File: words[0], Args: slices.Concat([]string{filepath.Base(words[0])}, words[1:]), Dir: dir, Tool: "bash",
		Call: &tool.Call{Cwd: dir, Roots: []tool.Root{{Path: "/work/space", Writable: true}}}, Workspace: "/work/space",
	}
}

func TestExecutionRules(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	deny, ask, allow := rule(policy.Deny, "touch *"), rule(policy.Ask, "git push *"), rule(policy.Allow, "git *")
	opened := rules(t, policy.Rules{Rules: []policy.Rule{deny, ask, allow}})
	plain := policy.New(policy.Rules{})
	renamed := execution("/work/space", "/work/space/x", "f")
	renamed.File = "/usr/bin/touch"
	argv0 := execution("/work/space", "/usr/bin/coreutils", "f")
	argv0.Args[0] = "touch"
	aliased := execution("/work/space", "/usr/bin/git", "-c", "alias.x=push origin", "x")
	findApplet := execution("/", "/bin/busybox", "-delete")
	findApplet.Args[0] = "find"
	otherFind := execution("/", "/work/space/x", "-delete")
	otherFind.File = "/usr/bin/find"
	for _, c := range []struct {
		name   string
		p      *policy.Policy
		x      *policy.Execution
		effect policy.Effect
	}{
		{"denied", opened, execution("/work/space", "/usr/bin/touch", "f"), policy.Deny},
		{"denied elsewhere", opened, execution("/work/space", "./touch", "f"), policy.Deny},
		{"denied by its file", opened, renamed, policy.Deny},
		{"denied by its first argument", opened, argv0, policy.Deny},
		{"denied as applet", opened, execution("/work/space", "/bin/busybox", "touch", "f"), policy.Deny},
		{"denied in the shell of busybox", opened, execution("/work/space", "/bin/busybox", "sh", "-c", "cd /; touch f"), policy.Deny},
		{"asked", opened, execution("/work/space", "/usr/bin/git", "push", "origin"), policy.Ask},
		{"asked after options", opened, execution("/work/space", "/usr/bin/git", "-C", "/x", "push", "origin"), policy.Ask},
		{"asked through an alias", opened, aliased, policy.Ask},
		{"allowed", opened, execution("/work/space", "/usr/bin/git", "status"), policy.Allow},
		{"no rule", opened, execution("/work/space", "/usr/bin/ls"), policy.Allow},
		{"no rules", plain, execution("/work/space", "/usr/bin/touch", "f"), policy.Allow},
		{"built-in", plain, execution("/work/space", "/usr/bin/rm", "-rf", "/"), policy.Deny},
		{"built-in, relative", plain, execution("/work/space/a", "/usr/bin/rm", "-rf", "../../../etc"), policy.Deny},
		{"built-in, find", plain, execution("/", "/usr/bin/find", "-delete"), policy.Deny},
		{"built-in, find as applet", plain, findApplet, policy.Deny},
		{"built-in, find under another name", plain, otherFind, policy.Deny},
		{"a command that find starts", plain, execution("/", "/usr/bin/find", "/", "-exec", "cat", "{}", ";"), policy.Allow},
		{"a removal of all that find starts", plain, execution("/", "/usr/bin/find", "/", "-exec", "rm", "-rf", "{}", ";"), policy.Deny},
		{"no arguments at all", opened, &policy.Execution{Path: "/usr/bin/touch", Dir: "/"}, policy.Deny},
		{"a default", rules(t, policy.Rules{Default: policy.Deny}), execution("/work/space", "/usr/bin/ls"), policy.Allow},
		{"a project's rule", policy.New(policy.Rules{Project: []policy.Rule{prepared(t, deny)}}), execution("/", "/usr/bin/touch", "f"), policy.Deny},
	} {
		if j := c.p.JudgeExecution(c.x); j.Effect != c.effect {
			t.Errorf("%s: %s, wanted %s (%s %s)", c.name, j.Effect, c.effect, j.Rule, j.Reason)
		}
	}
	j := opened.JudgeExecution(execution("/work/space", "/usr/bin/touch", "a b"))
	if j.Subject != "touch 'a b'" || j.Rule != `deny "deny touch *"` || j.Kind != policy.KindBash || j.Reason == "" {
		t.Errorf("%+v", j)
	}
}

// TestGitItself checks that programs that git starts by its own path need no confirmation. Other programs need a
// confirmation.
func TestGitItself(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, ".git", "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".git/HEAD": "ref: refs/heads/main\n", "f": "1"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := policy.New(policy.Rules{})
	for path, want := range map[string]policy.Effect{"/usr/bin/git": policy.Ask, "/usr/lib/git-core/git": policy.Allow, dir + "/git-core/git": policy.Ask} {
		elsewhere := execution("/", path, "reset", "--hard", "-q")
		elsewhere.Workspace, elsewhere.WorkTree, elsewhere.Before = dir, dir, "/usr/bin/git"
		if j := p.JudgeExecution(elsewhere); j.Effect != want {
			t.Errorf("%s with GIT_WORK_TREE: %s, wanted %s", path, j.Effect, want)
		}
		x := execution(dir, path, "reset", "--hard", "-q")
		x.Before = "/usr/bin/dash"
		if x.Workspace = dir; p.JudgeExecution(x).Effect != policy.Ask {
			t.Errorf("%s in a shell is allowed", path)
		}
		x.Before = "/usr/bin/git"
		x.Workspace = dir
		if j := p.JudgeExecution(x); j.Effect != want {
			t.Errorf("%s: %s, wanted %s", path, j.Effect, want)
		}
	}
}

func prepared(t *testing.T, r policy.Rule) policy.Rule {
	t.Helper()
	if bad := r.Prepare(); bad != nil {
		t.Fatal(bad)
	}
	return r
}

func TestExecutionOfListedPrograms(t *testing.T) {
	git := rule(policy.Allow, "git status *", "git commit *")
	git.Starts = []string{"less", "git-*"}
	p := rules(t, policy.Rules{AllowList: true, Search: []string{"/opt/go/bin", "/work/space/bin"}, Rules: []policy.Rule{
		rule(policy.Allow, "ls *", "go *", "/opt/tool/run *", "find *"), git, rule(policy.Ask, "make *"), rule(policy.Deny, "less secret"),
	}})
	under := func(x *policy.Execution, ancestors ...*policy.Execution) *policy.Execution {
		for _, a := range ancestors {
			x.Ancestors = append(x.Ancestors, policy.Ancestor{Path: a.Path, File: a.File, Args: a.Args})
		}
		return x
	}
	as := func(x *policy.Execution, name string) *policy.Execution { x.Args[0] = name; return x }
	x := func(words ...string) *policy.Execution { return execution("/work/space", words...) }
	for _, c := range []struct {
		name   string
		x      *policy.Execution
		effect policy.Effect
	}{
		{"listed", x("/usr/bin/ls", "-l"), policy.Allow},
		{"listed, in a directory of PATH", x("/opt/go/bin/go", "build"), policy.Allow},
		{"listed by its path", x("/opt/tool/run", "1"), policy.Allow},
		{"a listed program that asks", x("/usr/bin/make", "all"), policy.Ask},
		{"a shell", x("/bin/bash", "-c", "ls"), policy.Allow},
		{"a login shell", as(x("/bin/bash"), "-bash"), policy.Allow},
		{"a wrapper", x("/usr/bin/env", "ls"), policy.Allow},
		{"a program that starts others", x("/usr/bin/find", ".", "-name", "x", "-exec", "touch", "{}", ";"), policy.Allow},
		{"a program that deletes by itself", x("/usr/bin/find", ".", "-delete"), policy.Deny},
		{"an applet", x("/bin/busybox", "ls"), policy.Allow},
		{"listed, with global options", x("/usr/bin/git", "-C", "sub", "status"), policy.Allow},
		{"not listed", x("/usr/bin/touch", "f"), policy.Deny},
		{"not listed arguments", x("/usr/bin/git", "push"), policy.Deny},
		{"a shell of the workspace", x("/work/space/bash"), policy.Deny},
		{"the same name in the workspace", x("/work/space/ls"), policy.Deny},
		{"a directory of PATH in the workspace", x("/work/space/bin/ls"), policy.Deny},
		{"the same name by a relative path", x("./ls"), policy.Deny},
		{"a path with ..", x("/usr/bin/../../work/space/ls"), policy.Deny},
		{"a path with .. that looks like a listed program", x("/work/space/link/../../../usr/bin/ls"), policy.Deny},
		{"a path with .. that looks like a shell", x("/work/space/link/../../../usr/bin/sh", "x.pl"), policy.Deny},
		{"another argv[0]", as(x("/usr/bin/ls"), "rm"), policy.Deny},
		{"a listed argv[0]", as(x("/usr/bin/rm", "f"), "ls"), policy.Deny},
		{"an empty argv[0]", as(x("/usr/bin/ls"), ""), policy.Deny},
		{"busybox under the name of an applet", as(x("/bin/busybox", "f"), "touch"), policy.Deny},
		{"busybox under the name of find", as(x("/bin/busybox", "-delete"), "find"), policy.Deny},
		{"an applet that is not listed", x("/bin/busybox", "touch", "f"), policy.Deny},
		{"a script of busybox that is unknown", x("/bin/busybox", "sh", "-c", "$(cat x)"), policy.Deny},
		{"started by git", under(x("/usr/bin/less"), x("/usr/bin/git", "status")), policy.Allow},
		{"a helper of git", under(x("/usr/lib/git-core/git-remote-https", "origin"), x("/usr/bin/git", "status")), policy.Allow},
		{"started by a shell of git", under(x("/usr/bin/less"), x("/bin/sh", "-c", "less"), x("/usr/bin/git", "status")), policy.Allow},
		{"started by another program", under(x("/usr/bin/less"), x("/usr/bin/ls")), policy.Deny},
		{"started by git under another name", under(as(x("/usr/bin/less"), "rm"), x("/usr/bin/git", "status")), policy.Deny},
		{"started by other arguments", under(x("/usr/bin/less"), x("/usr/bin/git", "push")), policy.Deny},
		{"started by a git of the workspace", under(x("/usr/bin/less"), x("/work/space/git", "status")), policy.Deny},
		{"not among the started", under(x("/usr/bin/touch"), x("/usr/bin/git", "status")), policy.Deny},
		{"started and denied", under(x("/usr/bin/less", "secret"), x("/usr/bin/git", "status")), policy.Deny},
	} {
		if j := p.JudgeExecution(c.x); j.Effect != c.effect {
			t.Errorf("%s: %s, wanted %s (%s %s)", c.name, j.Effect, c.effect, j.Rule, j.Reason)
		}
	}
	builds := rules(t, policy.Rules{AllowList: true, Rules: []policy.Rule{{Effect: policy.Ask, Name: "build", Commands: []string{"make *", "gcc *"}, Starts: []string{"*"}}, rule(policy.Ask, "cp *"), rule(policy.Allow, "ls *")}})
	for effect, all := range map[policy.Effect][]*policy.Execution{
		policy.Ask: {
			x("/usr/bin/make"), x("/usr/bin/gcc"), under(x("/usr/bin/cp", "a", "b"), x("/usr/bin/make")), under(x("/usr/bin/gcc"), x("/usr/bin/ls")), under(x("/usr/bin/rm", "-rf", "."), x("/usr/bin/make")),
		},
		policy.Allow: {under(x("/usr/bin/gcc"), x("/bin/sh", "-c", "gcc"), x("/usr/bin/make")), under(x("/usr/lib/gcc/cc1"), x("/usr/bin/gcc"))},
		policy.Deny:  {x("/usr/lib/gcc/cc1"), under(x("/usr/lib/gcc/cc1"), x("/usr/bin/ls")), x("/usr/bin/strace", "ls"), x("/usr/bin/fakeroot", "ls")},
	} {
		for _, x := range all {
			if j := builds.JudgeExecution(x); j.Effect != effect {
				t.Errorf("%q below %v: %s, wanted %s (%s %s)", x.Args, x.Ancestors, j.Effect, effect, j.Rule, j.Reason)
			}
		}
	}
	names := p.Listed()
	for _, want := range []string{"ls", "go", "git", "make", "less", "git-*", "bash", "env", "/opt/tool/run"} {
		if !slices.Contains(names, want) {
			t.Errorf("Listed lacks %s: %q", want, names)
		}
	}
	if slices.Contains(names, "sudo") {
		t.Error("sudo is listed")
	}
}

// TestGatedScripts checks scripts whose programs are judged again when they are executed. Such a script must be refused
// only because of commands that its text shows.
func TestGatedScripts(t *testing.T) {
	p := rules(t, policy.Rules{AllowList: true, Rules: []policy.Rule{rule(policy.Allow, "ls *", "cat *"), rule(policy.Ask, "make *")}})
	for text, effects := range map[string][2]policy.Effect{
		"ls | cat": {policy.Allow, policy.Allow}, "ls; touch x": {policy.Deny, policy.Deny}, "make": {policy.Ask, policy.Ask}, `eval "$x"`: {policy.Deny, policy.Allow}, "$x y": {policy.Deny, policy.Allow},
		". ./env; ls": {policy.Deny, policy.Allow}, "ls | xargs cat": {policy.Deny, policy.Allow}, "f() { ls; }; f": {policy.Allow, policy.Allow}, "trap ls EXIT": {policy.Deny, policy.Allow}, "x=a; x[$(touch y)]=1": {policy.Deny, policy.Deny},
		"echo $((x))": {policy.Deny, policy.Allow}, "xargs touch": {policy.Deny, policy.Deny},
	} {
		for i, gated := range []bool{false, true} {
			req := command(t, "/work/space", text)
			req.Gated = gated
			d := p.Judge(req)
			if d.Effect != effects[i] || d.Programs != []string{policy.ByAnalysis, policy.AtExecution}[i] {
				t.Errorf("%s, gated %v: %s %s, wanted %s (%s %s)", text, gated, d.Effect, d.Programs, effects[i], d.Rule, d.Reason)
			}
		}
	}
}

func TestStartsNeedsCommands(t *testing.T) {
	for _, r := range []policy.Rule{
		{Effect: policy.Deny, Name: "x", Commands: []string{"git"}, Starts: []string{"less"}}, {Effect: policy.Allow, Name: "x", Tools: []string{"bash"}, Starts: []string{"less"}},
		{Effect: policy.Allow, Name: "x", Commands: []string{"git"}, Starts: []string{"less -R"}}, {Effect: policy.Allow, Name: "x", Commands: []string{"git"}, Starts: []string{"/bin/less"}},
	} {
		if bad := r.Prepare(); len(bad) != 1 || bad[0].Attribute != "starts" {
			t.Errorf("%+v: %v", r, bad)
		}
	}
}

// TestExecutionPaths checks that rules with paths apply to the arguments of a program.
func TestExecutionPaths(t *testing.T) {
	top := tree(t)
	p := rules(t, policy.Rules{Rules: []policy.Rule{{Effect: policy.Deny, Name: "secret", Paths: []string{"**/secret"}}, {Effect: policy.Ask, Name: "out", Kinds: []string{policy.KindBash, policy.KindExternal}}, {Effect: policy.Deny, Name: "evil", Domains: []string{"*.evil.org"}}}})
	in := func(words ...string) *policy.Execution {
		x := execution(filepath.Join(top, "root", "sub"), words...)
		x.Call.Roots, x.Workspace = []tool.Root{{Path: filepath.Join(top, "root"), Writable: true}}, filepath.Join(top, "root")
		return x
	}
	p2 := rules(t, policy.Rules{Rules: []policy.Rule{{Effect: policy.Deny, Name: "secret", Paths: []string{"**/secret"}}, {Effect: policy.Ask, Name: "out", Kinds: []string{policy.KindExternal}}}})
	for _, c := range []struct {
		p      *policy.Policy
		x      *policy.Execution
		effect policy.Effect
	}{
		{p, in("/bin/cat", "../../secret"), policy.Deny}, {p, in("/bin/cat", "../file-out"), policy.Deny}, {p, in("/usr/bin/curl", "https://a.evil.org/x"), policy.Deny},
		{p2, in("/bin/cat", "../a"), policy.Allow}, {p2, in("/bin/cat", "../../readonly/r"), policy.Ask}, {p2, in("/bin/cat", "*"), policy.Allow},
	} {
		if j := c.p.JudgeExecution(c.x); j.Effect != c.effect {
			t.Errorf("%q: %s, wanted %s (%s %s)", c.x.Args, j.Effect, c.effect, j.Rule, j.Reason)
		}
	}
}

func TestConfirmExecution(t *testing.T) {
	p := rules(t, policy.Rules{Rules: []policy.Rule{rule(policy.Ask, "git push *"), rule(policy.Deny, "touch *")}})
	ctx := context.Background()
	push := execution("/work/space", "/usr/bin/git", "push", "origin")
	yes := &peer{answer: tool.Answer{Outcome: tool.Accepted}}
	if j, err := policy.ConfirmExecution(ctx, "bash", p.JudgeExecution(push), nil, yes, answers{}); err != nil || j.Effect != policy.Allow || yes.asked == nil || yes.asked.Permission.Patterns[0] != "git push origin" {
		t.Errorf("accepted: %+v %v %+v", j, err, yes.asked)
	}
	no := &peer{answer: tool.Answer{Outcome: tool.Declined}}
	if j, err := policy.ConfirmExecution(ctx, "bash", p.JudgeExecution(push), nil, no, answers{}); err == nil || j.Effect != policy.Deny {
		t.Errorf("declined: %+v %v", j, err)
	}
	d, err := p.Check(ctx, command(t, "/work/space", "git push origin"), yes, answers{})
	if err != nil {
		t.Fatal(err)
	}
	silent := &peer{answer: tool.Answer{Outcome: tool.Declined}}
	if j, err := policy.ConfirmExecution(ctx, "bash", p.JudgeExecution(push), d, silent, answers{}); err != nil || j.Effect != policy.Allow || silent.asked != nil {
		t.Errorf("asked twice: %+v %v", j, err)
	}
	if _, err := policy.ConfirmExecution(ctx, "bash", p.JudgeExecution(execution("/work/space", "/usr/bin/git", "push", "other")), d, silent, answers{}); err == nil || silent.asked == nil {
		t.Error("an answer is valid for other arguments")
	}
	if _, err := policy.ConfirmExecution(ctx, "bash", p.JudgeExecution(execution("/work/space", "/usr/bin/touch", "f")), nil, yes, answers{}); err == nil || !strings.Contains(err.Error(), "touch f is denied by") {
		t.Errorf("denied: %v", err)
	}
	if j, err := policy.ConfirmExecution(ctx, "bash", p.JudgeExecution(execution("/work/space", "/bin/ls")), nil, no, answers{}); err != nil || j.Effect != policy.Allow {
		t.Errorf("allowed: %+v %v", j, err)
	}
}

// TestLongCommandsDiffer checks that an answer about a long command is not valid for a different long command.
func TestLongCommandsDiffer(t *testing.T) {
	p := rules(t, policy.Rules{Rules: []policy.Rule{rule(policy.Ask, "git push *")}})
	long := strings.Repeat("x", 10_000)
	a, b := p.JudgeExecution(execution("/", "/usr/bin/git", "push", long+"a")), p.JudgeExecution(execution("/", "/usr/bin/git", "push", long+"b"))
	if a.Subject == b.Subject || len(a.Subject) > 5000 {
		t.Errorf("%d %d", len(a.Subject), len(b.Subject))
	}
}

func TestExecutionIsSafeForConcurrentUse(t *testing.T) {
	p := rules(t, policy.Rules{AllowList: true, Rules: []policy.Rule{rule(policy.Allow, "ls *"), rule(policy.Deny, "rm *")}})
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 100 {
				p.JudgeExecution(execution("/", "/bin/ls"))
				p.JudgeExecution(execution("/", "/bin/busybox", "sh", "-c", "rm x"))
			}
		})
	}
	wait.Wait()
}

func BenchmarkJudgeExecution(b *testing.B) {
	x := execution("/work/space", "/usr/bin/gcc", "-O2", "-c", "x.c")
	listed := policy.Rules{AllowList: true, Rules: []policy.Rule{rule(policy.Allow, "ls *", "gcc *")}}
	for i := range listed.Rules {
		listed.Rules[i].Prepare()
	}
	for name, p := range map[string]*policy.Policy{"no rules": policy.New(policy.Rules{}), "listed": policy.New(listed)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if p.JudgeExecution(x).Effect != policy.Allow {
					b.Fatal("not allowed")
				}
			}
		})
	}
}
