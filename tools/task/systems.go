package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// systems lists the systems, besides that of the build machine, for which the code is built.
var systems = [][]string{{"GOOS=linux", "GOARCH=arm64"}, {"GOOS=darwin", "GOARCH=arm64"}}

// checkSystems type-checks all packages and their tests for each of the systems. It reads the types of dependencies
// from their sources, because compiling the dependencies for another system would take minutes.
func (t *task) checkSystems() error {
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return err
	}
	elsewhere := strings.Fields(string(out))
	var errs []error
	for _, env := range systems {
		loaded, err := packages.Load(&packages.Config{
			Mode: packages.LoadAllSyntax, Dir: t.Root, Env: append(append(os.Environ(), env...), "CGO_ENABLED=0"), Tests: true,
			BuildFlags: []string{"-tags=oracle,docs"},
			ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
				return parseTypes(fset, name, src, slices.ContainsFunc(elsewhere, func(dir string) bool { return strings.HasPrefix(name, dir+"/") }))
			},
		}, t.Packages()...)
		if err != nil {
			return err
		}
		checked := 0
		for _, p := range loaded {
			checked += len(p.Syntax)
			for _, e := range p.Errors {
				errs = append(errs, fmt.Errorf("%s: %w", strings.Join(env, " "), e))
			}
		}
		if checked == 0 {
			errs = append(errs, fmt.Errorf("%s: no file was checked", strings.Join(env, " ")))
		}
	}
	return errors.Join(distinct(errs)...)
}

// parseTypes parses a file. If the file belongs to a dependency, parseTypes removes the bodies of functions, because
// type-checking other packages does not need them.
func parseTypes(fset *token.FileSet, name string, src []byte, dependency bool) (*ast.File, error) {
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution|parser.AllErrors)
	if f != nil && dependency {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				fn.Body = nil
			}
		}
	}
	return f, err
}
