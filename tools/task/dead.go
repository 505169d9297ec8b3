package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// deadPackage is what the program deadcode prints for a package.
type deadPackage struct {
	Path  string
	Funcs []struct {
		Name     string
		Position struct {
			File string
			Line int
		}
	}
}

// private matches the packages that only this repository can import: their functions have no callers elsewhere.
var private = regexp.MustCompile(`^toolhost\.dev/(plugins/|bench|host/cmd/|host/(.*/)?internal/)`)

// ofTests matches the packages that only tests import.
var ofTests = regexp.MustCompile(`/internal/(test\w+|peer)(/|$)`)

// reachable are functions that deadcode does not see a call of, with the caller.
var reachable = map[string]string{
	"toolhost.dev/sdk/tooltest/conformance.Test":                "plugin authors, as examples/httpapi",
	"toolhost.dev/host/internal/config.TreeValue.UnmarshalJSON": "encoding/json, for embedders that decode host.ConfigTree",
	"toolhost.dev/plugins/bash/process.Tree.Pid":                "tests of package shell",
	"toolhost.dev/plugins/bash/shell.Runner.Idle":               "tests of package bash",
	"toolhost.dev/plugins/grep/index.Set.Audit":                 "tests of package finder",
}

// checkDead checks that each function is reachable. In a private package a program must reach it.
// In the others a test is enough: their exported functions are for callers outside of this repository.
func (t *task) checkDead() error {
	if err := t.tools(); err != nil {
		return err
	}
	var errs []error
	for _, tests := range []bool{false, true} {
		var out bytes.Buffer
		args := []string{"-json"}
		if tests {
			args = []string{"-json", "-test", "-tags=oracle"}
		}
		c := t.command(".", nil, t.tool("deadcode"), append(args, t.Packages()...)...)
		if c.Stdout = &out; c.Run() != nil {
			return errors.New("deadcode failed")
		}
		var packages []deadPackage
		if err := json.Unmarshal(out.Bytes(), &packages); err != nil {
			return err
		}
		for _, p := range packages {
			if tests || private.MatchString(p.Path) && !ofTests.MatchString(p.Path) {
				errs = append(errs, p.unreachable()...)
			}
		}
	}
	return errors.Join(distinct(errs)...)
}

func (p deadPackage) unreachable() (errs []error) {
	for _, f := range p.Funcs {
		// The linker's flag -E names the functions in these files.
		if strings.HasPrefix(filepath.Base(f.Position.File), "entry_") {
			continue
		}
		if _, ok := reachable[strings.TrimSuffix(p.Path, "_test")+"."+f.Name]; !ok {
			errs = append(errs, fmt.Errorf("%s:%d: %s is unreachable; delete it, or move it to an export_test.go if tests need it", f.Position.File, f.Position.Line, f.Name))
		}
	}
	return errs
}

// distinct removes errors with the same text.
func distinct(errs []error) []error {
	var seen []string
	return slices.DeleteFunc(errs, func(err error) bool {
		known := slices.Contains(seen, err.Error())
		seen = append(seen, err.Error())
		return known
	})
}
