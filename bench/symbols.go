package main

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"toolhost.dev/host"
)

// declared is a declared symbol that code_query must find.
type declared struct {
	File         string
	Line, Column int
	Name, Kind   string
}

type declarations struct {
	Matches   []declared
	Total     int
	NotParsed int `json:"not_parsed"`
}

func lookUp(ctx context.Context, h *host.Host, args map[string]any) (*declarations, string, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, "", err
	}
	res := h.Run(ctx, host.Request{Name: "code_query", Arguments: raw}, nil)
	if !res.Success() {
		return nil, "", res.Error
	}
	d := &declarations{}
	state, _ := res.Metadata["index"].(string)
	return d, state, json.Unmarshal(res.Data, d)
}

var lookUps = []map[string]any{
	{"query": "ServeHTTP"}, {"query": "Server", "type": "class"}, {"query": "NewRequestWithContext", "type": "function"}, {"query": "Server.Close", "type": "method"},
	{"query": "String", "type": "method"}, {"query": "err"}, {"query": "/^(Read|Write)All$/"}, {"query": "Parse*", "type": "function", "path": "go"},
	{"query": "maxInt", "match": "exact"}, {"query": "nosuchnameanywhere"}, {"query": "server", "type": "file"}, {"query": "Mutex", "language": "go", "context": 2},
}

// symbols measures code_query in the sources of Go and checks that its results are complete.
func (s *searched) symbols(ctx context.Context, name string) error {
	h, done, err := s.host(ctx, "events")
	if err != nil {
		return err
	}
	defer done()
	began := time.Now()
	first, state, err := lookUp(ctx, h, map[string]any{"query": "ServeHTTP", "type": "method"})
	if err != nil {
		return err
	}
	fmt.Printf("code_query, %s: the very first query, with the index %s: %s, %d found, %d files not parsed\n", name, state, millis(time.Since(began)), first.Total, first.NotParsed)
	if err := s.warm(ctx, h); err != nil {
		return err
	}
	began = time.Now()
	if _, _, err = lookUp(ctx, h, lookUps[0]); err != nil {
		return err
	}
	fmt.Printf("the first query with the index: %s\n", millis(time.Since(began)))
	if err := s.complete(ctx, h); err != nil {
		return err
	}
	var all []time.Duration
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, args := range lookUps {
		var took []time.Duration
		total := 0
		for range 21 {
			began := time.Now()
			d, state, err := lookUp(ctx, h, args)
			took = append(took, time.Since(began))
			if err != nil {
				return err
			}
			if state != "ready" || d.NotParsed > 0 {
				return fmt.Errorf("%v: the index is %s, %d files were not parsed", args, state, d.NotParsed)
			}
			total = d.Total
		}
		all = append(all, took...)
		fmt.Fprintf(out, "  %v\t%s\t%d found\n", strings.TrimPrefix(fmt.Sprint(args), "map"), millis(median(took)), total)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	p50 := median(all)
	fmt.Printf("  p50 of all %s (at most 5: %s)\n", millis(p50), verdict(p50 <= 5*time.Millisecond))
	return pluginMemory(h)
}

// complete checks that code_query finds every top-level declaration of a file.
func (s *searched) complete(ctx context.Context, h *host.Host) error {
	found := make(map[string]bool)
	began := time.Now()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries { // one query for each directory is faster than a single query with many pages
		for offset := 0; e.IsDir() || strings.HasSuffix(e.Name(), ".go"); {
			d, _, err := lookUp(ctx, h, map[string]any{"query": "*", "path": e.Name(), "language": "go", "head_limit": 10_000, "offset": offset})
			if err != nil {
				return err
			}
			if d.NotParsed > 0 {
				return fmt.Errorf("%d files were not parsed", d.NotParsed)
			}
			for _, m := range d.Matches {
				found[fmt.Sprintf("%s:%d:%d %s", m.File, m.Line, m.Column, m.Name)] = true
			}
			if offset += len(d.Matches); offset >= d.Total || len(d.Matches) == 0 {
				break
			}
		}
	}
	took := time.Since(began)
	want, missing := 0, 0
	err = filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, s.dir+"/")
		if err != nil || e.IsDir() && strings.HasPrefix(e.Name(), ".") && path != s.dir {
			return fs.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasPrefix(e.Name(), ".") {
			return nil
		}
		set := token.NewFileSet()
		file, _ := parser.ParseFile(set, path, nil, parser.SkipObjectResolution|parser.AllErrors) // ignore the error, because a partial syntax tree is enough
		if file == nil {
			return nil
		}
		check := func(name *ast.Ident) {
			at := set.PositionFor(name.Pos(), false)
			want++
			if name.Name != "" && !found[fmt.Sprintf("%s:%d:%d %s", rel, at.Line, at.Column, name.Name)] {
				if missing++; missing <= 10 {
					fmt.Printf("  MISSED %s:%d:%d %s\n", rel, at.Line, at.Column, name.Name)
				}
			}
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				check(d.Name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						check(spec.Name)
					case *ast.ValueSpec:
						for _, n := range spec.Names {
							check(n)
						}
					}
				}
			}
		}
		return nil
	})
	fmt.Printf("all declarations, in pages: %d in %s; of %d that go/parser sees at the top level, %d missing (0: %s)\n", len(found), millis(took), want, missing, verdict(missing == 0))
	return err
}
