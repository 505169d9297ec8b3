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

// deadPackage is the output of the program deadcode for one package.
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

// This expression matches packages that only this repository can import. Their functions have no callers in other
// repositories.
var private = regexp.MustCompile(`^toolhost\.dev/(plugins/|bench|host/cmd/|host/(.*/)?internal/)`)

// ofTests matches packages that only tests import.
var ofTests = regexp.MustCompile(`/internal/(test\w+|peer)(/|$)`)

// This map contains functions, each with a caller that the program deadcode does not find.
var reachable = map[string]string{
	"toolhost.dev/sdk/tooltest/conformance.Test":                "plugin authors, as examples/httpapi",
	"toolhost.dev/host/internal/config.TreeValue.UnmarshalJSON": "encoding/json, for embedders that decode host.ConfigTree",
	"toolhost.dev/plugins/bash/process.Tree.Pid":                "tests of package shell",
	"toolhost.dev/plugins/bash/shell.Runner.Idle":               "tests of package bash",
	"toolhost.dev/plugins/grep/index.Set.Audit":                 "tests of package finder",
}

// checkDead checks that each function is reachable. A function in a private package must be reachable from a program.
// For other packages, a test is sufficient, because callers outside this repository use their exported functions.
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
		// Skip functions in these files, because only the linker's flag -E names them.
		if strings.HasPrefix(filepath.Base(f.Position.File), "entry_") {
			continue
		}
		if _, ok := reachable[strings.TrimSuffix(p.Path, "_test")+"."+f.Name]; !ok {
			errs = append(errs, fmt.Errorf("%s:%d: %s is unreachable; delete it, or move it to an export_test.go if tests need it", f.Position.File, f.Position.Line, f.Name))
		}
	}
	return errs
}

// distinct removes errors whose text occurs more than once, except the first.
func distinct(errs []error) []error {
	var seen []string
	return slices.DeleteFunc(errs, func(err error) bool {
		known := slices.Contains(seen, err.Error())
		seen = append(seen, err.Error())
		return known
	})
}
