package hook

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"toolhost.dev/sdk/tool"
)

func command(script string) *Command {
	return &Command{
		Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"},
		Writable: func(string) []string { return nil },
		Run:      func(_ context.Context, cmd *exec.Cmd) error { return cmd.Run() },
	}
}

func TestWhatAProgramSaysIsBounded(t *testing.T) {
	in := &tool.HookInput{Event: tool.HookBefore, Tool: "t"}
	if _, err := command(`head -c 20000000 /dev/zero`).Hook(t.Context(), in); err == nil || !strings.Contains(err.Error(), "answered more than 16777216 bytes") {
		t.Errorf("%.200v", err)
	}
	a, err := command(`head -c 20000000 /dev/zero | tr '\0' 'x' >&2; exit 2`).Hook(t.Context(), in)
	if err != nil || a.Decision != tool.HookDeny || len(a.Reason) != maxWords {
		t.Errorf("%v, %+.200v", err, a)
	}
}

func TestAnswers(t *testing.T) {
	for text, want := range map[string]string{ // each value is a decision or a part of the error message
		"":                                    "",
		"{}":                                  "",
		`{"decision":"approve"}`:              "",
		`{"decision":"block"}`:                "deny",
		`{"decision":"ask","reason":"x"}`:     "ask",
		`{"continue":false}`:                  "deny",
		`{"decision":"ask","continue":false}`: "deny",
		`{"decision":"allow","hookSpecificOutput":{"permissionDecision":"deny"}}`: "deny",
		`{"decision":"deny","hookSpecificOutput":{"permissionDecision":"allow"}}`: "deny",
		`{"decision":"perhaps"}`:                  "use allow, deny or ask",
		`{"decision":"allow"}{"decision":"deny"}`: "more than one JSON object",
		`{"verdict":"deny"}`:                      "unknown field",
		`{"result":{"error":{"kind":"odd"}}}`:     "unknown error kind",
	} {
		a, err := parse([]byte(text))
		if err != nil && (want == "" || !strings.Contains(err.Error(), want)) || err == nil && string(a.Decision) != want {
			t.Errorf("%s: %+v, %v", text, a, err)
		}
	}
}
