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
	overlay := map[string]map[string]string{"Replace": {}}
	add := func(rel string, source []byte) {
		out := filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay["Replace"])))
		overlay["Replace"][t.Path("host/"+rel)] = out
		err = errors.Join(err, os.WriteFile(out, source, 0o600))
	}
	add("internal/callpath/record.go", callpathRecord)
	add("internal/callpath/main/main.go", callpathMain)
	for path := range strings.FieldsSeq(string(files)) {
		rel := strings.TrimPrefix(path, t.Path("host")+"/")
		source, failed := recorded(rel, path)
		err = errors.Join(err, failed)
		add(rel, source)
	}
	description, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "main")
	text, _ := json.Marshal(overlay) // the error is ignored, because strings can always be encoded
	if err := errors.Join(err, os.WriteFile(description, text, 0o600)); err != nil {
		return err
	}
	if err := t.run(nil, "go", "build", "-overlay", description, "-o", program, "./host/internal/callpath/main"); err != nil {
		return err
	}
	return t.run(nil, program, dir, filepath.Join(programs, "plugins"))
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
