//go:build !race

package outline

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"

	"toolhost.dev/plugins/grep/internal/peer"
)

// TestOracleGoComplete checks that the outline of each file in Go's own sources contains every top-level declaration.
func TestOracleGoComplete(t *testing.T) {
	o := New()
	defer o.Close()
	n := 0
	for _, pattern := range []string{"net/http/*.go", "go/*/*.go", "cmd/compile/internal/*/testdata/*.go", "internal/types/testdata/*/*.go", "syscall/*.go"} {
		files, err := filepath.Glob(filepath.Join(peer.GoSources(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			table, err := o.Table(t.Context(), path, text)
			if err != nil {
				t.Fatal(err)
			}
			type place struct {
				line, column int32
				name         string
			}
			found := make(map[place]bool)
			for _, s := range table.Symbols {
				found[place{s.Line, s.Column, s.Name}] = true
				// The parser inserts the name "_" where a name is missing.
				if s.Name != "_" && !bytes.HasPrefix(text[s.Offset:], []byte(s.Name)) {
					t.Errorf("%s:%d: the offset of %s is wrong", path, s.Line, s.Name)
				}
			}
			set := token.NewFileSet()
			file, _ := parser.ParseFile(set, "", text, parser.AllErrors) // ignore the error: declarations are also compared if the file has syntax errors
			if file == nil {
				continue
			}
			for _, d := range file.Decls {
				for _, name := range declaredBy(d) {
					at := set.PositionFor(name.Pos(), false)
					n++
					if name.Name != "" && !found[place{int32(at.Line), int32(at.Column), name.Name}] { // #nosec G115 -- a line
						t.Errorf("%s:%d:%d %s is not found", path, at.Line, at.Column, name.Name)
					}
				}
			}
		}
	}
	if n < 5_000 {
		t.Errorf("only %d declarations", n)
	}
}

func declaredBy(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{d.Name}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name)
			case *ast.ValueSpec:
				names = append(names, spec.Names...)
			}
		}
	}
	return names
}
