package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/host/internal/state"
	"toolhost.dev/host/internal/telemetry"
	"toolhost.dev/sdk/tool"
)

// unmasked returns texts without masking secrets.
func unmasked(raw []byte) (string, func(string) string) { return string(raw), strings.Clone }

// audited calls the function "calls" and returns the new entries of the audit log.
func audited(t *testing.T, d *rig, calls func()) []state.AuditEntry {
	t.Helper()
	d.State.Audit(&state.Auditing{Entry: unmasked, MaxBytes: 1 << 20, MaxAge: time.Hour})
	calls()
	if err := d.State.Flush(); err != nil {
		t.Fatal(err)
	}
	entries, err := d.State.AuditLog(state.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestEveryCallIsAuditedOnce(t *testing.T) {
	d := dispatcher(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		if call.Tool == "change" {
			res := unavailable()
			res.Run.Plugin, res.Run.PluginVersion = "p", "2"
			return res
		}
		return &tool.Result{Output: string(call.Arguments), Run: tool.Run{Plugin: "p", PluginVersion: "1"}}
	})
	d.Registry.Lookup("", "change").Limits.Fallback = "look"
	d.Policy = policy.New(policy.Rules{Rules: []policy.Rule{{Effect: policy.Allow, Name: "set", At: "f:1", Tools: []string{"look"}, Set: map[string]json.RawMessage{"text": json.RawMessage(`"set"`)}}}})
	d.Hooks = hookOn(tool.HookBefore, func(_ context.Context, in *tool.HookInput) (*tool.HookAnswer, error) {
		switch in.Tool {
		case "brief":
			return &tool.HookAnswer{Decision: tool.HookDeny, Reason: "not that."}, nil
		case "stat":
			return &tool.HookAnswer{Arguments: json.RawMessage(`{"text":"hooked"}`)}, nil
		}
		return nil, nil
	})
	entries := audited(t, d, func() {
		for i, command := range []string{"look --text a", "danger", "brief", "stat", "change --text b", "tool:nope x", "look -h"} {
			begin(d, fmt.Sprint(i), "s", command).Run(t.Context(), client{})
		}
	})
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%s<%s %s %s %s|%s %s %v|%s %s|%s %s", e.Call, e.Parent, e.Tool, e.Layer, e.Arguments, e.Decision, e.Rule, e.Rewritten, strings.Join(e.Hooks, ","), e.Outcome, e.Plugin, e.Version))
	}
	want := []string{
		`0< look agent {"text":"set"}|allow allow "set" (f:1) [text]| success|p 1`,
		`1< danger agent {}|deny  []| permission_denied|p `,
		`2< brief agent {}|deny hook "h" []|h before_call denied: not that. permission_denied|p `,
		`3< stat agent {"text":"hooked"}|allow  []|h before_call changed success|p 1`,
		`4< change agent {"text":"b"}|allow  []| unavailable|p 2`,
		`4.fallback<4 look agent {"text":"set"}|allow allow "set" (f:1) [text]| success|p 1`,
		`5< nope agent {"command":"tool:nope x"}|  []| not_found| `,
		`6< look agent {"command":"look -h"}|  []| success| `,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	h, err := d.State.History("s", 100)
	if err != nil || len(h) != len(want) {
		t.Errorf("%d entries in the history, %v", len(h), err)
	}
}

// TestRememberedAnswersAreRecorded checks that the audit log names the remembered answers to what a running tool asks
// for.
func TestRememberedAnswersAreRecorded(t *testing.T) {
	d := dispatcher(t, func(ctx context.Context, _ *tool.Call, peer tool.Peer) *tool.Result {
		for _, subject := range []string{"/opt/a", "/opt/b"} {
			a, err := peer.Ask(ctx, tool.Ask{Permission: &tool.Permission{Kind: "external_directory", Title: "May I?", Patterns: []string{subject}}})
			if want := subject == "/opt/a"; err != nil || (a.Outcome == tool.Accepted) != want {
				t.Errorf("%s: %+v, %v", subject, a, err)
			}
		}
		return new(tool.Result)
	})
	for subject, allow := range map[string]bool{"/opt/a": true, "/opt/b": false} {
		if err := d.State.Remember(state.Answer{Scope: state.ScopeWorkspace, Owner: "/w", Kind: "external_directory", Tool: "look", Subject: subject, Allow: allow, At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	entries := audited(t, d, func() { run(t, d, "look") })
	day := time.Now().Format(time.DateOnly)
	for _, want := range []string{"remembered (answer ", "never (answer ", " for the workspace /w, " + day + ")"} {
		if len(entries) != 1 || !strings.Contains(entries[0].Answered, want) {
			t.Errorf("no %q: %+v", want, entries)
		}
	}
}

func TestMetricsOfCalls(t *testing.T) {
	d := dispatcher(t, ok)
	d.Limits.Metrics = new(telemetry.Metrics)
	running := -1
	d.Plugins = plugins(func(ctx context.Context, call *tool.Call, peer tool.Peer) *tool.Result {
		for _, s := range d.Limits.Metrics.Tools() {
			if s.Name == "look" {
				running = s.Running
			}
		}
		return ok(ctx, call, peer)
	})
	for _, command := range []string{"look", "off", "danger", "tool:nope", "look -h"} {
		run(t, d, command)
	}
	var got []string
	for _, s := range d.Limits.Metrics.Tools() {
		got = append(got, fmt.Sprint(s.Name, " ", s.Calls, " ", s.Successes, " ", s.Running, " ", s.Execution.Count))
	}
	if want := []string{"(none) 2 1 0 0", "danger 1 0 0 0", "look 1 1 0 1", "off 1 0 0 0"}; !slices.Equal(got, want) || running != 1 {
		t.Errorf("%q, want %q; %d running", got, want, running)
	}
}

// TestUnrecordableCallsAreRefused checks that no tool and no fallback runs while the audit log cannot be written.
func TestUnrecordableCallsAreRefused(t *testing.T) {
	d := dispatcher(t, func(_ context.Context, call *tool.Call, _ tool.Peer) *tool.Result {
		t.Errorf("%s ran", call.Tool)
		return new(tool.Result)
	})
	d.Registry.Lookup("", "change").Limits.Fallback = "look"
	var reopened int
	db, err := state.OpenFallback(func() (*state.DB, error) {
		reopened++
		return nil, errors.New("/state.db: it is broken")
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	auditing := state.Auditing{Entry: unmasked, MaxBytes: 1 << 20}
	db.Audit(&auditing)
	d.State = db
	for _, command := range []string{"look", "change --text b"} {
		res := run(t, d, command)
		must(t, res, tool.Unavailable, `the audit log cannot be written: /state.db: it is broken. Calls run again when it is writable.`)
		must(t, res, tool.Unavailable, `set audit { on_failure = "continue" }`)
	}
	if res := run(t, d, "look -h"); !res.Success() || reopened < 2 {
		t.Errorf("%+v, %d checks", res, reopened)
	}
	auditing.Continue = true
	d.Plugins = plugins(ok)
	if res := run(t, d, "look"); !res.Success() {
		t.Error(res.Error)
	}
}
