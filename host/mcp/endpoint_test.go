package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"toolhost.dev/host"
	"toolhost.dev/sdk/tool"
)

// manyTools returns tools in many namespaces, and the core tools.
func manyTools(namespaces, each int) []host.Tool {
	var out []host.Tool
	add := func(ns, name string, description int) {
		t := host.Tool{Definition: tool.Definition{Name: name, Description: strings.Repeat("word ", description/5), Input: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}, Namespace: ns, FullName: name, FunctionName: name, Enabled: true}
		if ns != "" {
			t.FullName, t.FunctionName = ns+":"+name, ns+"_"+name
		}
		out = append(out, t)
	}
	for _, name := range []string{"read", "edit", "grep", "bash"} {
		add("", name, 1200)
	}
	for i := range namespaces {
		for j := range each {
			add(fmt.Sprintf("namespace-%d", i), fmt.Sprintf("do_something_useful_%d", j), 700)
		}
	}
	return out
}

// TestLazySize checks that the definitions of a lazy endpoint fit into 3000 tokens, and that their list of namespaces
// contains the most used ones.
func TestLazySize(t *testing.T) {
	o := offer{tools: manyTools(125, 4), mode: modeLazy, core: []string{"read", "edit", "grep"}}
	functions, tools, err := o.lazyFunctions(map[string]int{"namespace-99:do_something_useful_1": 5, "namespace-7:do_something_useful_0": 4})
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, d := range tools {
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		size += len(b)
	}
	if size > 4*3000 || len(functions) != 5 {
		t.Errorf("%d functions with %d bytes", len(functions), size)
	}
	command := functions[4].Description
	lines := strings.Split(command, "\n")
	first, last := slices.Index(lines, "Namespaces (number of tools):"), lines[len(lines)-1]
	if !strings.HasPrefix(lines[first+1], "namespace-99 (4): do_something_useful_0, ") || !strings.HasPrefix(lines[first+2], "namespace-7 (4)") || !strings.HasPrefix(lines[first+3], "namespace-0 (4)") {
		t.Errorf("wrong order: %.400s", command)
	}
	var more int
	if n, err := fmt.Sscanf(last, "and %d more: help", &more); n != 1 || err != nil || more+len(lines)-2-first != 125 {
		t.Errorf("%d lines end with %q", len(lines), last)
	}
	if again, _, _ := o.lazyFunctions(nil); strings.Contains(again[4].Description, "\nnamespace-99") {
		t.Error("an unused namespace at the end of the configuration is listed before others")
	}
}

// TestFound checks that the number of tools that a session can find is limited. It also checks which sessions are
// notified of found tools.
func TestFound(t *testing.T) {
	l := lazy{sessions: map[*mcp.ServerSession]*lazySession{}}
	one, other := new(mcp.ServerSession), new(mcp.ServerSession)
	l.sessions[one], l.sessions[other] = new(lazySession), new(lazySession)
	var names []string
	for i := range maxFound + 5 {
		names = append(names, fmt.Sprint("t", i))
	}
	if !l.add(one, names) || !slices.Equal(l.found(one), names[5:]) || l.found(other) != nil {
		t.Errorf("%v, %v", l.found(one), l.found(other))
	}
	if l.add(one, names[10:12]) || l.found(one)[maxFound-1] != "t11" {
		t.Errorf("found again: %v", l.found(one))
	}
	for step, want := range [][2]bool{{true, false}, {false, false}, {true, true}, {false, false}} {
		if step == 2 {
			l.changed()
		}
		if got := [2]bool{l.notify(one), l.notify(other)}; got != want {
			t.Errorf("step %d: %v", step, got)
		}
	}
}
