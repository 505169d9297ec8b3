package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/callgraph/rta"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// This expression matches packages that only this repository can import. Their functions have no callers in other
// repositories.
var private = regexp.MustCompile(`^toolhost\.dev/(plugins/|bench|host/cmd/toolhost|sandbox/cmd/|(branch|host|sandbox)/(.*/)?internal/)`)

// ofTests matches packages that only tests import.
var ofTests = regexp.MustCompile(`/internal/(test\w+|peer)(/|$)`)

// The keys of this map are functions whose callers the analysis does not find. The values name the callers.
var reachable = map[string]string{
	"toolhost.dev/sdk/tooltest/conformance.Test":                "plugin authors, as examples/httpapi",
	"toolhost.dev/host/internal/config.TreeValue.UnmarshalJSON": "encoding/json, for embedders that decode host.ConfigTree",
	"toolhost.dev/plugins/bash/process.Tree.Pid":                "tests of package shell",
	"toolhost.dev/plugins/bash/shell.Runner.Idle":               "tests of package bash",
	"toolhost.dev/plugins/grep/index.Set.Audit":                 "tests of package finder",
}

// checkDead checks that each function is reachable. A function in a private package must be reachable from a program.
// For other packages, it is enough if a test reaches the function, because their exported functions have callers
// outside this repository.
func (t *task) checkDead() error {
	c := &code{root: t.Root}
	if err := c.load(t.Packages()...); err != nil {
		return err
	}
	var errs []error
	programs, all := c.reached(false), c.reached(true)
	for _, f := range c.functions {
		of := all
		if private.MatchString(f.pkg) && !ofTests.MatchString(f.pkg) && !strings.HasSuffix(f.at.Filename, "_test.go") {
			of = programs
		}
		if !of[f.at] && !f.excused() {
			errs = append(errs, fmt.Errorf("%s:%d: %s is unreachable; delete it, or move it to an export_test.go if tests need it", f.at.Filename, f.at.Line, f.name))
		}
	}
	return errors.Join(distinct(errs)...)
}

// code is the source code of the repository with everything that it imports. It is used to find the functions that are
// never called.
type code struct {
	root      string
	env       []string // environment of the go command; nil means the environment of this process
	fset      *token.FileSet
	functions []function
	programs  []*ssa.Function // initialization and main functions of programs
	tests     []*ssa.Function // initialization and main functions of test binaries
}

// function is a declared function or method of the repository.
type function struct {
	pkg, name string // the name of a method includes the type of the receiver
	at        token.Position
}

// load reads the packages with their tests, and everything that they import. Both analyses of checkDead use the result
// of one call, because reading takes longer than an analysis.
func (c *code) load(patterns ...string) error {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: c.root, Env: c.env, Tests: true, BuildFlags: []string{"-tags=oracle,docs"}}, patterns...)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range loaded {
		for _, e := range p.Errors {
			errs = append(errs, e)
		}
		c.declared(p)
	}
	if len(errs) > 0 {
		return errors.Join(distinct(errs)...)
	}
	program, built := ssautil.AllPackages(loaded, ssa.InstantiateGenerics)
	for i, p := range built {
		switch {
		case p == nil || p.Pkg.Name() != "main" || p.Func("main") == nil:
		case strings.HasSuffix(loaded[i].ID, ".test"):
			c.tests = append(c.tests, p.Func("init"), p.Func("main"))
		case loaded[i].ForTest == "":
			c.programs = append(c.programs, p.Func("init"), p.Func("main"))
		}
	}
	if len(c.programs) == 0 || len(c.tests) == 0 {
		return fmt.Errorf("%s: no programs or no tests in %s", c.root, strings.Join(patterns, " "))
	}
	program.Build()
	c.fset = program.Fset
	return nil
}

// declared adds the functions that a package declares. It omits generated files, and methods that only mark a type as
// an implementation of an interface.
func (c *code) declared(p *packages.Package) {
	for _, file := range p.Syntax {
		if ast.IsGenerated(file) {
			continue
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.FuncDecl)
			if !ok || decl.Name.Name == "_" {
				continue
			}
			fn, ok := p.TypesInfo.Defs[decl.Name].(*types.Func)
			if !ok || decl.Recv != nil && marks(decl, fn) {
				continue
			}
			c.functions = append(c.functions, function{pkg: p.PkgPath, name: named(fn), at: p.Fset.Position(decl.Name.Pos())})
		}
	}
}

// marks reports whether a method does nothing and cannot be called from another package. Such a method only marks a
// type.
func marks(decl *ast.FuncDecl, fn *types.Func) bool {
	s := fn.Signature()
	return !fn.Exported() && s.Params().Len() == 0 && s.Results().Len() == 0 && decl.Body != nil && len(decl.Body.List) == 0
}

// named returns the name of a function. The name of a method is preceded by its receiver's type.
func named(fn *types.Func) string {
	recv := fn.Signature().Recv()
	if recv == nil {
		return fn.Name()
	}
	at := recv.Type()
	if p, ok := at.(*types.Pointer); ok {
		at = p.Elem()
	}
	if n, ok := at.(*types.Named); ok {
		return n.Obj().Name() + "." + fn.Name()
	}
	return fn.Name()
}

// reached returns the positions of the functions that programs can call. If tests is true, it also returns the
// positions of the functions that test binaries can call. Functions are identified by their positions, because a
// function occurs several times if it is compiled for several test binaries.
func (c *code) reached(tests bool) map[token.Position]bool {
	roots := c.programs
	if tests {
		roots = slices.Concat(roots, c.tests)
	}
	out := make(map[token.Position]bool)
	for fn := range rta.Analyze(roots, false).Reachable {
		if origin := fn.Origin(); origin != nil {
			fn = origin
		}
		if fn.Pos().IsValid() {
			out[c.fset.Position(fn.Pos())] = true
		}
	}
	return out
}

// excused reports whether a function has a caller that the analysis cannot find. For functions in the files entry_*,
// this is the linker with its flag -E. Other functions are listed in the map reachable. The suffix _test is removed
// from the package, because external test packages have this suffix.
func (f function) excused() bool {
	if strings.HasPrefix(filepath.Base(f.at.Filename), "entry_") || f.name == "init" {
		return true
	}
	_, ok := reachable[strings.TrimSuffix(f.pkg, "_test")+"."+f.name]
	return ok
}

// If several errors have the same text, distinct removes all of them except the first.
func distinct(errs []error) []error {
	var seen []string
	return slices.DeleteFunc(errs, func(err error) bool {
		known := slices.Contains(seen, err.Error())
		seen = append(seen, err.Error())
		return known
	})
}
