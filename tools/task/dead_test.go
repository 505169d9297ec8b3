package main

import (
	"encoding/json"
	"testing"
)

func TestUnreachable(t *testing.T) {
	t.Parallel()
	var p deadPackage
	text := `{"Path": "toolhost.dev/plugins/bash/shell", "Funcs": [
		{"Name": "Runner.Idle", "Position": {"File": "a.go", "Line": 1}},
		{"Name": "Runner.Pause", "Position": {"File": "a.go", "Line": 2}},
		{"Name": "entry", "Position": {"File": "/r/entry_linux.go", "Line": 3}}]}`
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	errs := p.unreachable()
	if len(errs) != 1 || errs[0].Error() != "a.go:2: Runner.Pause is unreachable; delete it, or move it to an export_test.go if tests need it" {
		t.Error(errs)
	}
	if got := distinct(append(errs, p.unreachable()...)); len(got) != 1 {
		t.Error(got)
	}
}

func TestPrivatePackages(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"toolhost.dev/plugins/read":           true,
		"toolhost.dev/host/internal/dispatch": true,
		"toolhost.dev/host/cmd/toolhost":      true,
		"toolhost.dev/host/mcp/internal/x":    true,
		"toolhost.dev/host":                   false,
		"toolhost.dev/host/router":            false,
		"toolhost.dev/sdk":                    false,
		"toolhost.dev/sdk/tool":               false,
	} {
		if private.MatchString(path) != want {
			t.Errorf("%s: private is %t", path, !want)
		}
	}
	for path, want := range map[string]bool{"toolhost.dev/host/internal/testplugin": true, "toolhost.dev/plugins/grep/internal/peer": true, "toolhost.dev/host/internal/registry": false} {
		if ofTests.MatchString(path) != want {
			t.Errorf("%s: of tests is %t", path, !want)
		}
	}
}
