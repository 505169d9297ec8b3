package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The sources that callpath adds to the module host: a package that records functions, and a program that makes
// requests.
var (
	//go:embed testdata/callpath/record.go
	callpathRecord []byte
	//go:embed testdata/callpath/main/main.go
	callpathMain []byte
)

// callpath prints the way of some requests from the method Begin of a host to their place in the queue of the session.
// It builds the module host with an overlay, in which each function of the module first records itself.
func (t *task) callpath() error {
	programs, err := t.buildTestPrograms()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "callpath")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	c := t.command("host", nil, "go", "list", "-f", `{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}`, "./...")
	c.Stdout = nil
	files, err := c.Output()
	if err != nil {
		return err
	}
	sources := &overlay{task: t, dir: dir}
	err = sources.addCallpath()
	for path := range strings.FieldsSeq(string(files)) {
		rel := strings.TrimPrefix(path, t.Path("host")+"/")
		source, failed := recorded(rel, path)
		err = errors.Join(err, failed, sources.add(rel, source))
	}
	description, failed := sources.write()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	program := filepath.Join(dir, "main")
	if err := t.run(nil, "go", "build", "-overlay", description, "-o", program, callpathPackage); err != nil {
		return err
	}
	return t.run(nil, program, dir, filepath.Join(programs, "plugins"))
}

// callpathPackage is the program in the overlay.
const callpathPackage = "./host/internal/callpath/main"

// overlay describes files that the go command reads in place of files of the module host.
type overlay struct {
	*task
	dir     string // of the files
	replace map[string]string
}

// add adds a file. The path rel is relative to the module host.
func (o *overlay) add(rel string, source []byte) error {
	if o.replace == nil {
		o.replace = make(map[string]string)
	}
	out := filepath.Join(o.dir, fmt.Sprintf("%d.go", len(o.replace)))
	o.replace[o.Path("host/"+rel)] = out
	return os.WriteFile(out, source, 0o600)
}

// addCallpath adds the package that records functions, and the program that makes requests.
func (o *overlay) addCallpath() error {
	return errors.Join(o.add("internal/callpath/record.go", callpathRecord), o.add("internal/callpath/main/main.go", callpathMain))
}

// write writes the description of the overlay for the go command. It returns the path of the description.
func (o *overlay) write() (string, error) {
	text, err := json.Marshal(map[string]any{"Replace": o.replace})
	path := filepath.Join(o.dir, "overlay.json")
	return path, errors.Join(err, os.WriteFile(path, text, 0o600))
}

// recorded returns the source of a file in which each function begins with a call that records it.
func recorded(rel, path string) ([]byte, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	found := false
	for _, d := range slices.Backward(f.Decls) { // from the end, so that the positions stay right
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			found = true
			source = slices.Insert(source, fset.Position(fn.Body.Lbrace).Offset+1, fmt.Appendf(nil, " callpath.Enter(%q, %q); ", rel, fn.Name.Name)...)
		}
	}
	if found {
		source = slices.Insert(source, fset.Position(f.Name.End()).Offset, []byte(`; import "toolhost.dev/host/internal/callpath"`)...)
	}
	return source, nil
}
