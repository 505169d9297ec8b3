package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/tools/project"
)

// faults is a Go file with several faults. A different analyzer of go vet finds each fault.
const faults = `// Package v has faults.
package v

import (
	"context"
	"fmt"
	"sync"
)

type locked struct{ mu sync.Mutex }

// F has faults.
func F(l locked, n int64) {
	fmt.Printf("%d\n", "x")
	fmt.Sprintf("x")
	ctx, _ := context.WithCancel(context.Background())
	_ = ctx
	n = n
	_ = string(n)
	var small int8
	_ = small << 9
	_ = n == 1 || n == 1
	_ = F == nil
	var group sync.WaitGroup
	go func() { group.Add(1) }()
	return
	fmt.Println()
}
`

// TestLintFindsWhatVetFinds checks that check-lint includes check-vet, because make test runs only check-lint.
func TestLintFindsWhatVetFinds(t *testing.T) {
	t.Parallel()
	p, err := project.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	r := &task{Project: p, out: os.Stderr, getenv: os.Getenv}
	if err := r.tools(); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(r.Path(".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		".golangci.yml": string(config), "go.mod": "module example.org/v\n\ngo 1.26\n", "v.go": faults,
		"v_test.go": "package v\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { go func() { t.Fatal() }() }\n\nfunc Testb(t *testing.T) {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Compare only file names, because cached findings of go vet contain the directory of an earlier run.
	finding := regexp.MustCompile(`(?m)^\S*?\b(v(?:_test)?\.go:\d+:\d+): `)
	find := func(name string, args ...string) []string {
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir, c.Env = dir, append(os.Environ(), standalone...)
		out, _ := c.CombinedOutput() // ignore the error: the status is 1, because there are findings
		var at []string
		for _, m := range finding.FindAllStringSubmatch(string(out), -1) {
			at = append(at, m[1])
		}
		slices.Sort(at)
		return at
	}
	vet := find("go", "vet", "./...")
	lint := find(r.tool("golangci-lint"), "run", "--enable-only", "govet", "--max-same-issues", "0", "--max-issues-per-linter", "0", "--allow-parallel-runners", "./...")
	if len(vet) < 12 || strings.Join(vet, " ") != strings.Join(lint, " ") {
		t.Errorf("go vet finds %d faults, at %q\ncheck-lint finds %d, at %q", len(vet), vet, len(lint), lint)
	}
}
