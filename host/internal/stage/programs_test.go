package stage

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sandbox/execgate"
	"toolhost.dev/sdk/tool"
)

// judgeWith returns the judge for a call of the tool bash with the given rules.
func judgeWith(t *testing.T, listed bool, all ...policy.Rule) *judge {
	t.Helper()
	for i := range all {
		all[i].Name = fmt.Sprint("r", i)
		if bad := all[i].Prepare(); len(bad) > 0 {
			t.Fatal(bad)
		}
	}
	return &judge{
		policy: policy.New(policy.Rules{AllowList: listed, Rules: all}), decision: &policy.Decision{}, name: "bash", workspace: "/ws", commands: true,
		call: &tool.Call{Cwd: "/ws", Roots: []tool.Root{{Path: "/ws", Writable: true}}},
	}
}

// program returns an execution of a program by the process with the given id.
func program(pid int, path string, args ...string) *execgate.Execution {
	return &execgate.Execution{Path: path, Asked: path, Argv: append([]string{strings.TrimPrefix(path, "/usr/bin/")}, args...), Dir: "/ws", PID: pid}
}

// by sets the interpreter of a script.
func by(e, interpreter *execgate.Execution) *execgate.Execution {
	e.Interpreter = interpreter
	return e
}

// after sets the previous program of an execution's process.
func after(e, last *execgate.Execution) *execgate.Execution {
	e.Ancestors = []*execgate.Execution{last}
	return e
}

// TestProgramsOfScripts checks the judgement of script interpreters and of programs that env executes for scripts.
func TestProgramsOfScripts(t *testing.T) {
	allow := policy.Rule{Effect: policy.Allow, Commands: []string{"./s *"}}
	script := func() *execgate.Execution {
		return by(program(7, "./s", "a"), program(7, "/usr/bin/env", "python3", "./s", "a"))
	}
	listed := judgeWith(t, true, allow)
	preloaded := script()
	preloaded.Preloads = []string{"LD_PRELOAD"}
	open := judgeWith(t, false, policy.Rule{Effect: policy.Deny, Commands: []string{"touch *"}})
	for name, c := range map[string]struct {
		j      *judge
		e      *execgate.Execution
		effect string
	}{
		"a listed script":                     {listed, script(), execgate.Allow},
		"a preloaded library":                 {listed, preloaded, execgate.Deny},
		"its interpreter":                     {listed, by(program(7, "./s"), program(7, "/usr/bin/python3", "./s")), execgate.Allow},
		"another program as interpreter":      {listed, by(program(7, "./s"), program(7, "/usr/bin/touch", "./s")), execgate.Deny},
		"an interpreter of the workspace":     {listed, by(program(7, "./s"), program(7, "/ws/python3", "./s")), execgate.Deny},
		"a denied interpreter":                {open, by(program(7, "./x"), program(7, "/usr/bin/touch", "./x")), execgate.Deny},
		"the interpreter of an interpreter":   {open, by(program(7, "./x"), by(program(7, "/ws/y", "./x"), program(7, "/usr/bin/touch", "/ws/y", "./x"))), execgate.Deny},
		"what env executes":                   {listed, after(program(7, "/usr/bin/python3", "./s", "a"), script()), execgate.Allow},
		"what env executes elsewhere":         {listed, after(program(8, "/usr/bin/python3", "./s", "a"), script()), execgate.Deny},
		"other arguments than those of env":   {listed, after(program(7, "/usr/bin/python3", "-c", "x"), script()), execgate.Deny},
		"more arguments than those of env":    {listed, after(program(7, "/usr/bin/python3", "./s", "a", "b"), script()), execgate.Deny},
		"another program of env":              {listed, after(program(7, "/usr/bin/touch", "./s"), by(program(7, "./s"), program(7, "/usr/bin/env", "touch", "./s"))), execgate.Deny},
		"after an interpreter other than env": {listed, after(program(7, "/usr/bin/python3", "./s", "a"), by(program(7, "./s"), program(7, "/usr/bin/bash", "./s", "a"))), execgate.Deny},
	} {
		if v := c.j.Judge(c.e); v.Effect != c.effect {
			t.Errorf("%s: %s, wanted %s (%s %s)", name, v.Effect, c.effect, v.Rule, v.Reason)
		}
	}
	// A person must confirm the script and its interpreter.
	ask := judgeWith(t, false, policy.Rule{Effect: policy.Ask, Commands: []string{"./s *"}}, policy.Rule{Effect: policy.Ask, Commands: []string{"python3 *"}})
	if v := ask.Judge(by(program(7, "./s"), program(7, "/usr/bin/python3", "./s"))); v.Effect != execgate.Ask || len(pending(v)) != 2 {
		t.Errorf("asks: %s %v", v.Effect, pending(v))
	}
}

// TestOneAskForAScript checks that a rule asks once about a script, although it is also about the interpreter in the
// first line.
func TestOneAskForAScript(t *testing.T) {
	every := policy.Rule{Effect: policy.Ask, Commands: []string{"./s *", "* ./s", "touch *"}}
	script := func(interpreter ...string) *execgate.Execution {
		return by(program(7, "./s"), program(7, "/usr/bin/"+interpreter[0], append(interpreter[1:], "./s")...))
	}
	env := func(pid int) *execgate.Execution {
		return after(program(pid, "/usr/bin/python3", "./s"), script("env", "python3"))
	}
	for name, c := range map[string]struct {
		rules []policy.Rule
		runs  []*execgate.Execution
		asks  int
	}{
		"a shell":                      {[]policy.Rule{every}, []*execgate.Execution{script("sh")}, 1},
		"env":                          {[]policy.Rule{every}, []*execgate.Execution{script("env", "python3"), env(7)}, 1},
		"env in another process":       {[]policy.Rule{every}, []*execgate.Execution{script("env", "python3"), env(8)}, 2},
		"no script":                    {[]policy.Rule{every}, []*execgate.Execution{program(7, "/usr/bin/touch", "x"), program(7, "/usr/bin/python3", "./s")}, 2},
		"another rule":                 {[]policy.Rule{{Effect: policy.Ask, Commands: []string{"./s"}}, {Effect: policy.Ask, Commands: []string{"sh *"}}}, []*execgate.Execution{script("sh")}, 2},
		"a program that removes":       {[]policy.Rule{every}, []*execgate.Execution{script("rm")}, 2},
		"an interpreter of the caller": {[]policy.Rule{every}, []*execgate.Execution{by(program(7, "./s"), program(7, "/ws/sh", "./s"))}, 2},
	} {
		j := judgeWith(t, false, c.rules...)
		asker := new(counting)
		j.asker, j.answers = asker, asker
		for _, e := range c.runs {
			v := j.Judge(e)
			if v.Effect == execgate.Ask {
				v = j.Ask(t.Context(), e, v)
			}
			if v.Effect != execgate.Allow {
				t.Errorf("%s: %+v", name, v)
			}
		}
		if asker.asked != c.asks {
			t.Errorf("%s: %d asks, wanted %d", name, asker.asked, c.asks)
		}
	}
}

// counting accepts and counts permission requests.
type counting struct{ asked int }

func (c *counting) Ask(context.Context, tool.Ask) (tool.Answer, error) {
	c.asked++
	return tool.Answer{Outcome: tool.Accepted}, nil
}

// Recall and Remember implement [policy.Answers] without a memory.
func (*counting) Recall(string, string, string) (policy.Remembered, bool) {
	return policy.Remembered{}, false
}

func (*counting) Remember(string, string, string, bool, bool) error { return nil }
