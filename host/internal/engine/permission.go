package engine

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/ownfile"
	"toolhost.dev/host/internal/policy"
)

// Judge returns the policy's decision about a request, with the answers that people gave earlier. It does not ask the
// user or run the request.
func (e *Engine) Judge(req Request) (*policy.Decision, error) { return e.judge(req, true) }

func (e *Engine) judge(req Request, remembered bool) (*policy.Decision, error) {
	g := e.Current()
	s, err := e.session(g, req)
	if err != nil {
		return nil, err
	}
	return g.Dispatch.Judge(e.dispatchRequest(req, s), remembered), nil
}

// TestPermissions runs a permission test of the configuration. It returns nil if the test passes.
func (e *Engine) TestPermissions(t config.PermissionTest) error {
	d, err := e.judge(Request{Command: t.Command}, false)
	if err != nil {
		return err
	}
	by := ""
	if d.Rule != "" {
		by = " by " + d.Rule
	}
	why := d.Reason
	if why == "" {
		why = "no rule is about it"
	}
	switch {
	case string(d.Effect) != t.Expect:
		return fmt.Errorf("%s: test %q: command %q: want %s, got %s%s: %s", t.At, t.Name, t.Command, past(t.Expect), past(string(d.Effect)), by, why)
	case t.Rule != "" && !slices.ContainsFunc(d.Judged, func(j policy.Judgement) bool { return j.Decides(t.Rule) }):
		return fmt.Errorf("%s: test %q: %q is expected to fall under the rule %q, and does not: it is %s%s: %s", t.At, t.Name, t.Command, t.Rule, past(t.Expect), by, why)
	case t.Unknown != nil && *t.Unknown != (len(d.Unknown) > 0):
		return fmt.Errorf("%s: test %q: command %q: want unknown parts: %t; its unknown parts: %q", t.At, t.Name, t.Command, *t.Unknown, d.Unknown)
	}
	return nil
}

// past returns the past participle of an effect, such as "allowed".
func past(effect string) string {
	return map[string]string{"allow": "allowed", "ask": "asked about", "deny": "denied"}[effect]
}

// ErrSealed is the error for a sealed text that is not valid.
var ErrSealed = ownfile.ErrInvalid

var errUnsealable = errors.New("the host has no state directory for a key")

// Seal seals a value with the key in the state directory; see [ownfile.Key].
func (e *Engine) Seal(value, purpose []byte) (string, error) {
	if e.home.Root == "" {
		return "", errUnsealable
	}
	return e.sealKey().Seal(value, purpose)
}

// Unseal returns the value of a text that Seal returned.
func (e *Engine) Unseal(text string, purpose []byte) ([]byte, error) {
	if e.home.Root == "" {
		return nil, errUnsealable
	}
	return e.sealKey().Open(text, purpose)
}

func (e *Engine) sealKey() ownfile.Key {
	return ownfile.Key{Path: filepath.Join(e.home.Root, "seal.key")}
}
