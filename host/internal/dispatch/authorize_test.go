package dispatch

import (
	"context"
	"encoding/json"
	"testing"

	"toolhost.dev/host/internal/policy"
	"toolhost.dev/sdk/tool"
)

func TestRulesChangeWhatThePluginGets(t *testing.T) {
	d := dispatcher(t, ok)
	d.Policy = policy.New(policy.Rules{Rules: []policy.Rule{{Effect: policy.Allow, Name: "r", Tools: []string{"look"}, Set: map[string]json.RawMessage{"text": json.RawMessage(`"set"`)}}}})
	c := prepared(t, d, "look --text given")
	d.permissions().Authorize().Wrap(func(_ context.Context, c *Call) *tool.Result {
		if string(c.Decision.Sent.Arguments) != `{"text":"set"}` || string(c.Decision.Arguments["text"]) != `"set"` || c.Decision.Policy.Effect != policy.Allow {
			t.Errorf("%s, %+v", c.Decision.Sent.Arguments, c.Decision)
		}
		return new(tool.Result)
	})(t.Context(), c)
}

func TestARefusedCallGoesNoFurther(t *testing.T) {
	d := dispatcher(t, ok)
	c := prepared(t, d, "change --path /x")
	must(t, d.permissions().Authorize().Wrap(noNext(t))(t.Context(), c), tool.Security, "outside")
	if c.Decision.Policy.Effect != policy.Deny {
		t.Errorf("%+v", c.Decision.Policy)
	}
}

// TestAnswersAreRemembered checks that an answer for one session applies only to later calls of the same session.
func TestAnswersAreRemembered(t *testing.T) {
	d := dispatcher(t, ok)
	d.Policy = policy.New(policy.Rules{Default: policy.Ask})
	f := &asked{answer: tool.Answer{Outcome: tool.Accepted, Values: []string{policy.Session}}}
	for i, session := range []string{"s", "s", "other"} {
		if res := begin(d, "1", session, "look").Run(t.Context(), f); !res.Success() {
			t.Errorf("call %d: %v", i, res.Error)
		}
		if want := []int{1, 1, 2}[i]; f.n != want {
			t.Errorf("call %d: asked %d times, want %d", i, f.n, want)
		}
	}
}
