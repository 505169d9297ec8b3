package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

const (
	// maxSource is the size of a file of a configuration, in bytes.
	maxSource = 1 << 20
	// maxNested is how deep expressions and blocks may stand in each other, and how many operators an
	// expression may have. The parsers descend for each, and a stack that overflows ends the process:
	// a host would end because of a file that it is to refuse.
	maxNested = 500
)

// parseFile reads and parses a file. What is wrong with it is in the diagnostics.
func parseFile(p *hclparse.Parser, name string) (*hcl.File, hcl.Diagnostics) {
	src, err := readSource(name)
	if err != nil {
		return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: fmt.Sprintf("The file %s cannot be read", name), Detail: capital(err.Error()) + "."}}
	}
	nested, parse := nestedHCL, func() (*hcl.File, hcl.Diagnostics) { return p.ParseHCL(src, name) }
	if strings.HasSuffix(name, ".json") {
		nested, parse = nestedJSON, func() (*hcl.File, hcl.Diagnostics) { return p.ParseJSON(src, name) }
	}
	if at := nested(src, name); at != nil {
		p.AddFile(name, &hcl.File{Bytes: src, Body: hcl.EmptyBody()}) // for the line that is shown
		return nil, hcl.Diagnostics{tooDeep(*at)}
	}
	return parse()
}

func tooDeep(at hcl.Range) *hcl.Diagnostic {
	return problem(at, "This is nested too deep", "At most %d levels or operators may stand in each other. Put parts of it into locals.", maxNested)
}

// readSource reads a file of a configuration. A pipe or a device is refused, as it may have no end.
func readSource(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that nobody writes to does not keep it
	if err != nil {
		var at *os.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	src, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err == nil && len(src) > maxSource {
		err = fmt.Errorf("it is larger than %d MiB", maxSource>>20)
	}
	return src, err
}

// nestedHCL finds where a text goes too deep; nil: nowhere.
func nestedHCL(src []byte, name string) *hcl.Range {
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos) // what is wrong with it the parser says
	return nestedTokens(tokens)
}

func nestedTokens(tokens hclsyntax.Tokens) *hcl.Range {
	depth, operators := 0, 0
	for i := range tokens {
		switch tokens[i].Type {
		case hclsyntax.TokenOBrace:
			depth, operators = depth+1, 0
		case hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCBrace:
			depth, operators = depth-1, 0
		case hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			depth--
		case hclsyntax.TokenEqual, hclsyntax.TokenComma:
			operators = 0
		case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
			hclsyntax.TokenQuestion, hclsyntax.TokenAnd, hclsyntax.TokenOr:
			operators++
		}
		if depth > maxNested || operators > maxNested {
			return &tokens[i].Range
		}
	}
	return nil
}

// nestedJSON is nestedHCL for JSON, whose texts may hold expressions.
func nestedJSON(src []byte, name string) *hcl.Range {
	depth := 0
	at := hcl.InitialPos
	for ; at.Byte < len(src); at.Byte, at.Column = at.Byte+1, at.Column+1 {
		switch src[at.Byte] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '\n':
			at.Line, at.Column = at.Line+1, 0
		case '"':
			n := lenJSONString(src[at.Byte:])
			tokens, _ := hclsyntax.LexTemplate(src[at.Byte+1:at.Byte+n], name, hcl.InitialPos)
			if nestedTokens(tokens) != nil {
				depth = maxNested + 1
				break
			}
			at.Byte, at.Column = at.Byte+n, at.Column+n
		}
		if depth > maxNested {
			end := at
			end.Byte, end.Column = end.Byte+1, end.Column+1
			return &hcl.Range{Filename: name, Start: at, End: end}
		}
	}
	return nil
}

// lenJSONString gives how many bytes there are before the quote that ends a string, from the one that
// begins it.
func lenJSONString(src []byte) int {
	for i := 1; i < len(src); i++ {
		switch src[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(src)
}
