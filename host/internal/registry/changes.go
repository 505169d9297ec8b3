package registry

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
)

// Change is a difference between the tools of two versions of a plugin.
type Change struct {
	Tool string `json:"tool"`
	// What describes the difference as a sentence without a full stop.
	What string `json:"what"`
	// Breaks reports whether callers of the old definition can fail, or do more than intended, with the new definition.
	Breaks bool `json:"breaks"`
}

func (c Change) String() string { return c.Tool + ": " + c.What }

// Compare returns the differences between two versions of a plugin's tools.
func Compare(from, to []tool.Definition) []Change {
	var out []Change
	for i := range from {
		old := &from[i]
		k := slices.IndexFunc(to, func(d tool.Definition) bool { return d.Name == old.Name })
		if k < 0 {
			out = append(out, Change{old.Name, "the tool was removed", true})
			continue
		}
		out = append(out, compareTool(old, &to[k])...)
	}
	for i := range to {
		if !slices.ContainsFunc(from, func(d tool.Definition) bool { return d.Name == to[i].Name }) {
			out = append(out, Change{to[i].Name, "the tool is new", false})
		}
	}
	return out
}

func compareTool(old, now *tool.Definition) (out []Change) {
	add := func(breaks bool, format string, a ...any) {
		out = append(out, Change{old.Name, fmt.Sprintf(format, a...), breaks})
	}
	for _, t := range []struct {
		name     string
		old, now bool
		promise  bool // whether callers rely on the trait; a removal then breaks them
	}{
		{"read_only", old.Traits.ReadOnly, now.Traits.ReadOnly, true},
		{"concurrency_safe", old.Traits.ConcurrencySafe, now.Traits.ConcurrencySafe, false},
		{"idempotent", old.Traits.Idempotent, now.Traits.Idempotent, true},
		{"dangerous", old.Traits.Dangerous, now.Traits.Dangerous, true},
		{"cacheable", old.Traits.Cacheable, now.Traits.Cacheable, false},
		{"auto_execute", old.Traits.AutoExecute, now.Traits.AutoExecute, false},
		{"disabled", old.Traits.Disabled, now.Traits.Disabled, false},
	} {
		switch {
		case t.old && !t.now:
			add(t.promise, "the tool is no longer %s", t.name)
		case !t.old && t.now:
			// A tool with the new trait auto_execute runs without a question. Therefore the change breaks callers.
			add(t.name == "auto_execute", "the tool is now %s", t.name)
		}
	}
	if was, is := old.Claims(), now.Claims(); was != is { // other calls reach the tool than before, or its own do not
		add(true, "the role changed from %q to %q", was, is)
	}
	if !reflect.DeepEqual(old.Shares(), now.Shares()) {
		add(now.Shares() == nil, "other commands with its name run the tool")
	}
	if old.Description != now.Description {
		add(false, "the description changed")
	}
	if old.StdinParameter != now.StdinParameter {
		add(old.StdinParameter != "", "standard input goes to %q instead of %q", now.StdinParameter, old.StdinParameter)
	}
	if string(old.Input) == string(now.Input) {
		return out
	}
	a, errA := tool.ParseSchema(old.Input)
	b, errB := tool.ParseSchema(now.Input)
	if errA != nil || errB != nil {
		add(true, "the input schema changed")
		return out
	}
	before := len(out)
	compareParams(a, b, add)
	if a.Open() && !b.Open() {
		add(true, "undeclared parameters are no longer accepted")
	}
	if len(out) == before {
		add(false, "details of the parameters changed")
	}
	return out
}

func compareParams(a, b *tool.Schema, add func(breaks bool, format string, a ...any)) {
	var orderA, orderB []string
	for _, p := range a.Params() {
		q := b.Param(p.Name)
		if q == nil {
			add(!b.Open(), "the parameter %s was removed", p.Name)
			continue
		}
		orderA = append(orderA, p.Name)
		if q.Required && !p.Required {
			add(true, "the parameter %s is now required", p.Name)
		}
		if narrower(p.Types, q.Types) || narrower(p.ItemTypes, q.ItemTypes) {
			add(true, "the type of the parameter %s changed from %s to %s", p.Name, p.TypeName(), q.TypeName())
		}
		if lost := missing(p.Enum, q.Enum); q.Enum != nil && (p.Enum == nil || len(lost) > 0) {
			add(true, "the parameter %s now accepts only %s", p.Name, strings.Join(q.EnumNames(), ", "))
		}
		if p.Path != q.Path {
			add(true, "the path access of the parameter %s changed from %q to %q", p.Name, p.Path, q.Path)
		}
	}
	for _, q := range b.Params() {
		if a.Param(q.Name) == nil {
			if q.Required {
				add(true, "the new parameter %s is required", q.Name)
			} else {
				add(false, "the parameter %s is new", q.Name)
			}
		}
	}
	// A new parameter between existing parameters changes the positions of later parameters.
	for _, q := range b.Params()[:min(len(orderA), len(b.Params()))] {
		orderB = append(orderB, q.Name)
	}
	if !slices.Equal(orderA, orderB) {
		add(true, "the order of the parameters changed from %s to %s", strings.Join(orderA, ", "), strings.Join(orderB, ", "))
	}
}

// narrower reports whether a value can be valid for the old types but invalid for the new types. An empty list of types
// permits every value.
func narrower(old, now []string) bool {
	if len(now) == 0 {
		return false
	}
	return len(old) == 0 || slices.ContainsFunc(old, func(t string) bool {
		return !slices.Contains(now, t) && (t != "integer" || !slices.Contains(now, "number"))
	})
}

func missing(old, now []any) (lost []any) {
	for _, v := range old {
		if !slices.ContainsFunc(now, func(w any) bool { return reflect.DeepEqual(v, w) }) {
			lost = append(lost, v)
		}
	}
	return lost
}
