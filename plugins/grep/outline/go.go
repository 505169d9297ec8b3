package outline

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"

	"toolhost.dev/plugins/grep/symbol"
)

// maxDepth limits the depth of nested brackets and the number of consecutive operators. Above this limit, Go's
// recursive parser would need too much stack. Programs written by people are far below the limit.
const maxDepth = 2000

// goTable returns the declarations that Go's parser finds, regardless of build tags. It omits declarations in function
// bodies.
func goTable(text []byte) (t *symbol.Table, err error) {
	if deep(text) {
		return nil, fmt.Errorf("expressions are nested more than %d levels deep", maxDepth)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser failed: %v", p)
		}
	}()
	g, file, parseErr := parseGo(text)
	if file == nil {
		return nil, parseErr
	}
	symbols := g.symbols
	if parseErr != nil {
		symbols = append(symbols, goParts(text, symbols)...)
	}
	t = symbol.NewTable(symbol.GoParser, symbols)
	t.Broken = parseErr != nil
	if file.Name != nil {
		t.Package = file.Name.Name
	}
	return t, nil
}

func parseGo(text []byte) (*goFile, *ast.File, error) {
	g := &goFile{set: token.NewFileSet()}
	file, err := parser.ParseFile(g.set, "", text, parser.SkipObjectResolution|parser.AllErrors)
	if file != nil {
		for _, d := range file.Decls {
			g.declaration(d)
		}
	}
	return g, file, err
}

// maxParts is the maximum number of parts that are parsed separately in a text with errors.
const maxParts = 10_000

// goParts parses the declarations of a text with errors one by one. If it parsed the whole text at once, the parser
// would treat declarations after an error as part of the broken declaration. Each declaration must begin at the start
// of a line. goParts returns the symbols that are not in the argument "known".
func goParts(text []byte, known []symbol.Symbol) (more []symbol.Symbol) {
	type place struct{ line, column int32 }
	seen := make(map[place]bool)
	for _, s := range known {
		seen[place{s.Line, s.Column}] = true
	}
	var starts []int
	for at := 0; at < len(text) && len(starts) < maxParts; {
		line := text[at:]
		if n := bytes.IndexByte(line, '\n'); n >= 0 {
			line = line[:n+1]
		}
		for _, word := range [...]string{"func", "type", "var", "const"} {
			if rest, ok := bytes.CutPrefix(line, []byte(word)); ok && len(rest) > 0 &&
				(rest[0] == ' ' || rest[0] == '\t' || rest[0] == '(') {
				starts = append(starts, at)
			}
		}
		at += len(line)
	}
	all := linesOf(text)
	for i, from := range starts {
		to := len(text)
		if i+1 < len(starts) {
			to = starts[i+1]
		}
		line, _ := all.position(from)
		const header = "package p\n"
		g, _, _ := parseGo(append([]byte(header), text[from:to]...))
		for _, s := range g.symbols {
			s.Line, s.EndLine, s.Offset = s.Line+line-2, s.EndLine+line-2, s.Offset+int32(from-len(header)) // #nosec G115 -- less than maxGo
			if !seen[place{s.Line, s.Column}] {
				more = append(more, s)
			}
		}
	}
	return more
}

// deep reports whether the nested brackets or consecutive operators of a text exceed maxDepth. It also
// counts brackets in strings. If the text has more closing than opening brackets, the depth stays 0.
func deep(text []byte) bool {
	depth, row := 0, 0
	for _, c := range text {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(0, depth-1)
		case '*', '&', '-', '+', '!', '^', '<', '~':
			row++
		case ' ', '\t', '\n', '\r':
			continue
		default:
			row = 0
		}
		if depth > maxDepth || row > maxDepth {
			return bytes.Count(text, []byte("(")) > maxDepth || bytes.Count(text, []byte("{")) > maxDepth ||
				bytes.Count(text, []byte("[")) > maxDepth || row > maxDepth
		}
	}
	return false
}

type goFile struct {
	set     *token.FileSet
	symbols []symbol.Symbol
}

func (g *goFile) add(kind symbol.Kind, name *ast.Ident, container string, whole ast.Node) {
	if name == nil || name.Name == "" {
		return
	}
	at, end := g.set.PositionFor(name.Pos(), false), g.set.PositionFor(whole.End(), false)
	g.symbols = append(g.symbols, symbol.Symbol{
		Name: name.Name, Container: container, Kind: kind,
		Line: int32(at.Line), Column: int32(at.Column), EndLine: int32(max(at.Line, end.Line)),
		Offset: int32(at.Offset), // #nosec G115 -- less than maxGo
	})
}

func (g *goFile) declaration(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			g.add(symbol.Method, d.Name, receiver(d.Recv), d)
			return
		}
		g.add(symbol.Function, d.Name, "", d)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				g.typed(s)
			case *ast.ValueSpec:
				kind := symbol.Variable
				if d.Tok == token.CONST {
					kind = symbol.Constant
				}
				for _, name := range s.Names {
					g.add(kind, name, "", s)
				}
			}
		}
	}
}

// receiver returns the name of a method's receiver type.
func receiver(list *ast.FieldList) string {
	if len(list.List) == 0 {
		return ""
	}
	return typeName(list.List[0].Type)
}

// typeName returns the name of a type without pointers, packages and type parameters.
func typeName(e ast.Expr) string {
	if name := typeIdent(e); name != nil {
		return name.Name
	}
	return ""
}

func typeIdent(e ast.Expr) *ast.Ident {
	for {
		switch t := e.(type) {
		case *ast.Ident:
			return t
		case *ast.StarExpr:
			e = t.X
		case *ast.ParenExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.SelectorExpr:
			return t.Sel
		default:
			return nil
		}
	}
}

func (g *goFile) typed(s *ast.TypeSpec) {
	kind := symbol.Type
	switch s.Type.(type) {
	case *ast.StructType:
		kind = symbol.Struct
	case *ast.InterfaceType:
		kind = symbol.Interface
	}
	g.add(kind, s.Name, "", s)
	if s.Name != nil {
		g.members(s.Type, s.Name.Name)
	}
}

// members adds the fields of a struct, including the fields of nested structs, and the methods of an interface.
func (g *goFile) members(e ast.Expr, container string) {
	switch t := e.(type) {
	case *ast.StructType:
		if t.Fields == nil {
			return
		}
		for _, f := range t.Fields.List {
			if len(f.Names) == 0 {
				g.add(symbol.Field, typeIdent(f.Type), container, f)
			}
			for _, name := range f.Names {
				g.add(symbol.Field, name, container, f)
				g.members(f.Type, container+"."+name.Name)
			}
		}
	case *ast.InterfaceType:
		if t.Methods == nil {
			return
		}
		for _, f := range t.Methods.List {
			for _, name := range f.Names {
				g.add(symbol.Method, name, container, f)
			}
		}
	case *ast.StarExpr:
		g.members(t.X, container)
	case *ast.ArrayType:
		g.members(t.Elt, container)
	case *ast.MapType:
		g.members(t.Value, container)
	}
}
