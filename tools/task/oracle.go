package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// testFile describes a file of tests in the workspace.
type testFile struct {
	path string // path relative to the root of the repository
	// norace is true if the file is excluded from builds with the race detector.
	norace bool
	// funcs lists the tests, benchmarks, fuzz targets and examples in the file.
	funcs []string
}

// testFiles parses the test files of the workspace.
func (t *task) testFiles() ([]testFile, error) {
	var out []testFile
	for _, m := range t.Modules {
		err := filepath.WalkDir(t.Path(m), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				if err == nil && d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules") {
					return filepath.SkipDir
				}
				return err
			}
			f, err := parseTests(path)
			if err != nil {
				return err
			}
			f.path, err = filepath.Rel(t.Root, path)
			out = append(out, f)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func parseTests(path string) (testFile, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return testFile{}, err
	}
	var out testFile
	for _, group := range file.Comments {
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil && c.Pos() < file.Package {
				// The constraint depends on the race detector if its value changes when only the tag "race" changes.
				out.norace = expr.Eval(func(string) bool { return true }) != expr.Eval(func(tag string) bool { return tag != "race" })
			}
		}
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && slices.ContainsFunc([]string{"Test", "Benchmark", "Fuzz", "Example"}, func(p string) bool { return strings.HasPrefix(f.Name.Name, p) }) {
			out.funcs = append(out.funcs, f.Name.Name)
		}
	}
	return out, nil
}

// checkOracle checks two rules. Tests with a name TestOracle… must be in files that are excluded from builds with the
// race detector. Such files must contain no other tests. They may contain benchmarks, because a test run does not
// execute them. They may not contain fuzz targets, because the seeds of fuzz targets must run with the race detector.
func (t *task) checkOracle() error {
	files, err := t.testFiles()
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		errs = append(errs, f.check())
	}
	return errors.Join(errs...)
}

func (f testFile) check() error {
	var errs []error
	for _, name := range f.funcs {
		oracle := strings.HasPrefix(name, "TestOracle")
		switch {
		case f.norace && !oracle && !strings.HasPrefix(name, "Benchmark"):
			errs = append(errs, fmt.Errorf("%s: %s is in a file that is not built for the race detector; name it TestOracle…, or move it to another file", f.path, name))
		case oracle && !f.norace:
			errs = append(errs, fmt.Errorf("%s: %s is in a file that is built for the race detector; add //go:build !race, or rename it", f.path, name))
		}
	}
	return errors.Join(errs...)
}
