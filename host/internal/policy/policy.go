// Package policy decides whether a call may be made: the path check of the host,
// before the tool's own and the kernel's, and the confirmation of dangerous tools.
package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/unidiff"
)

// Rules are what the operator set.
type Rules struct {
	// Strict refuses any ".." and any symbolic link.
	Strict bool
	// Allow and Deny are globs over absolute paths.
	Allow, Deny []string
}

// CodePathDenied is the code of a refused path: layer 2 of the validation of an edit.
const CodePathDenied = 2

// Policy is safe for concurrent use.
type Policy struct{ rules Rules }

// New makes a policy.
func New(r Rules) *Policy { return &Policy{rules: r} }

// Check decides on a call. It asks through peer where the rules leave it open. The
// error says what was refused and what would allow it.
func (p *Policy) Check(ctx context.Context, def *tool.Definition, schema *tool.Schema, call *tool.Call, args map[string]json.RawMessage, peer tool.Peer) error {
	for _, param := range schema.Params() {
		raw, given := args[param.Name]
		if param.Path == "" || !given {
			continue
		}
		paths, write := pathsIn(raw), param.Path != "read"
		if param.Path == "diff" {
			paths = pathsInDiff(paths)
		}
		for _, path := range paths {
			if err := p.checkPath(call, path, write); err != nil {
				return tool.AsError(err).WithCode(CodePathDenied)
			}
		}
	}
	if def.Traits.Dangerous {
		return confirm(ctx, def, call, peer)
	}
	return nil
}

// Edit decides on files that a running call is about to change and that its arguments do
// not name.
func (p *Policy) Edit(call *tool.Call, paths []string) error {
	for _, path := range paths {
		if err := p.checkPath(call, path, true); err != nil {
			return tool.AsError(err).WithCode(CodePathDenied)
		}
	}
	return nil
}

// pathsIn gives the paths in an argument: a string or an array of them.
func pathsIn(raw json.RawMessage) []string {
	if n := len(raw); n >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return []string{string(raw[1 : n-1])} // it was checked to be JSON before
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var many []string
	_ = json.Unmarshal(raw, &many) // anything else is no path
	return many
}

// pathsInDiff gives the paths in unified diffs. One that cannot be read has none: the
// tool refuses it, with the reason.
func pathsInDiff(diffs []string) []string {
	var paths []string
	for _, diff := range diffs {
		files, err := unidiff.Parse(diff)
		if err == nil {
			paths = append(paths, unidiff.Paths(files)...)
		}
	}
	return paths
}

func (p *Policy) checkPath(call *tool.Call, path string, write bool) error {
	target, root, err := p.resolve(call, path)
	if err != nil {
		return err
	}
	if write && !root.Writable {
		return tool.Errorf(tool.PermissionDenied, "%s is in the read-only root %s. Write somewhere else, or make the root writable in the sandbox block of the configuration.", path, root.Path)
	}
	// A rule may name the path as it is written, or where its links lead.
	written := absolute(call, path)
	for _, g := range p.rules.Deny {
		if doublestar.MatchUnvalidated(g, target) || doublestar.MatchUnvalidated(g, written) {
			return tool.Errorf(tool.PermissionDenied, "%s is denied by the rule deny = [%q] in the sandbox block of the configuration.", path, g)
		}
	}
	if len(p.rules.Allow) == 0 {
		return nil
	}
	for _, g := range p.rules.Allow {
		if doublestar.MatchUnvalidated(g, target) {
			return nil
		}
	}
	return tool.Errorf(tool.PermissionDenied, "%s matches none of the rules allow = %q in the sandbox block of the configuration.", path, p.rules.Allow)
}

// confirm asks before a dangerous call.
func confirm(ctx context.Context, def *tool.Definition, call *tool.Call, peer tool.Peer) error {
	a, err := peer.Ask(ctx, tool.Ask{Permission: &tool.Permission{
		Kind: def.Name, Title: fmt.Sprintf("Run %s?", def.Name), Patterns: []string{shorten(string(call.Arguments))},
	}})
	if err != nil {
		return tool.AsError(err)
	}
	if a.Outcome == tool.Accepted {
		return nil
	}
	why := strings.TrimSuffix(a.Message, ".")
	if why == "" {
		why = "it was " + string(a.Outcome)
	}
	return tool.Errorf(tool.PermissionDenied, "%s needs a confirmation and did not get one: %s.", def.Name, why)
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 200 {
		return string(r[:199]) + "…"
	}
	return s
}
