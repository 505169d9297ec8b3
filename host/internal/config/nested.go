package config

import (
	"bytes"
	"encoding/json"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// nestedHCL returns the first position in a file that is nested too deeply. It returns nil if no position is nested too
// deeply.
func nestedHCL(src []byte, name string) *hcl.Range {
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos) // ignore the error: the parser reports it
	return nestedTokens(tokens, true)
}

// nestedExpression is like nestedHCL for a single expression. The expression can contain several lines.
func nestedExpression(src []byte, name string) *hcl.Range {
	tokens, _ := hclsyntax.LexExpression(src, name, hcl.InitialPos)
	return nestedTokens(tokens, false)
}

// closers maps each opening token to the token that closes it.
var closers = map[hclsyntax.TokenType]hclsyntax.TokenType{
	hclsyntax.TokenOBrace:          hclsyntax.TokenCBrace,
	hclsyntax.TokenOBrack:          hclsyntax.TokenCBrack,
	hclsyntax.TokenOParen:          hclsyntax.TokenCParen,
	hclsyntax.TokenOQuote:          hclsyntax.TokenCQuote,
	hclsyntax.TokenOHeredoc:        hclsyntax.TokenCHeredoc,
	hclsyntax.TokenTemplateInterp:  hclsyntax.TokenTemplateSeqEnd,
	hclsyntax.TokenTemplateControl: hclsyntax.TokenTemplateSeqEnd,
}

// group describes what a pair of brackets, or a template, contains.
type group struct {
	closer hclsyntax.TokenType
	lines  bool // whether the end of a line ends an item
	around int  // number of enclosing groups
	parts  int  // nesting depth in the current item, from operators and inner groups
	blocks int  // number of open template directives before this point
	height int  // maximum nesting depth of the finished items
}

func (g *group) depth() int { return g.around + g.blocks + g.parts }

// next ends the current item of the group and starts another item.
func (g *group) next() { g.height, g.parts = max(g.height, g.parts), 0 }

// nestedTokens returns the first position that is nested too deeply. It counts at least the recursion depth of the
// parsers. It can count more, because it ignores precedence and counts all parts of an item as nested.
func nestedTokens(tokens hclsyntax.Tokens, lines bool) *hcl.Range {
	open := []group{{lines: lines}}
	for i := range tokens {
		in := &open[len(open)-1]
		switch t := tokens[i].Type; t {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
			hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			if t == hclsyntax.TokenTemplateInterp || t == hclsyntax.TokenTemplateControl {
				in.next()
			}
			if t == hclsyntax.TokenTemplateControl && !word(tokens[i+1:], "else", "endif", "endfor") {
				in.blocks++
			}
			open = append(open, group{
				closer: closers[t], around: in.depth() + 1,
				lines: t == hclsyntax.TokenOBrace && !word(tokens[i+1:], "for"),
			})
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
			hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			open = closed(open, t)
		case hclsyntax.TokenComma:
			in.next()
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
			if in.lines && bytes.HasSuffix(tokens[i].Bytes, []byte("\n")) {
				in.next()
			}
		case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash,
			hclsyntax.TokenPercent,
			hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq,
			hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq,
			hclsyntax.TokenQuestion, hclsyntax.TokenAnd, hclsyntax.TokenOr:
			in.parts++
		}
		if open[len(open)-1].depth() > maxNested {
			return &tokens[i].Range
		}
	}
	return nil
}

// word reports whether the next token is one of the given keywords.
func word(tokens hclsyntax.Tokens, words ...string) bool {
	for i := range tokens {
		switch tokens[i].Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
			continue
		case hclsyntax.TokenIdent:
			for _, w := range words {
				if string(tokens[i].Bytes) == w {
					return true
				}
			}
		}
		return false
	}
	return false
}

// closed removes the innermost group that a token closes, together with all groups inside this group. A token that
// closes no open group changes nothing. A group without a closing token stays open until a group around it is closed.
func closed(open []group, by hclsyntax.TokenType) []group {
	at := len(open) - 1
	for at > 0 && open[at].closer != by {
		at--
	}
	if at == 0 {
		return open
	}
	for len(open) > at {
		g := open[len(open)-1]
		g.next()
		open = open[:len(open)-1]
		open[len(open)-1].parts += 1 + g.blocks + g.height
	}
	return open
}

// nestedJSON is like nestedHCL for JSON files. It also checks the strings, because they can contain expressions.
func nestedJSON(src []byte, name string) *hcl.Range {
	depth := 0
	at := hcl.InitialPos
	for ; at.Byte < len(src); at.Byte, at.Column = at.Byte+1, at.Column+1 {
		switch src[at.Byte] {
		case '{', '[':
			depth++
		case '}', ']':
			depth = max(0, depth-1)
		case '\n':
			at.Line, at.Column = at.Line+1, 0
		case '"':
			n := lenJSONString(src[at.Byte:])
			if nestedText(src[at.Byte:min(at.Byte+n+1, len(src))], name) {
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

// nestedText reports whether a template in a JSON string is nested too deeply. It first decodes the string, because an
// escape can represent any character.
func nestedText(quoted []byte, name string) bool {
	var text string
	if json.Unmarshal(quoted, &text) != nil { // report nothing, because the parser reports the error
		return false
	}
	tokens, _ := hclsyntax.LexTemplate([]byte(text), name, hcl.InitialPos)
	return nestedTokens(tokens, false) != nil
}

// lenJSONString returns the length of the string at the start of src, including both quotes. A control character also
// ends the string, as in the parser.
func lenJSONString(src []byte) int {
	escaped := false
	for i := 1; i < len(src); i++ {
		switch b := src[i]; {
		case b < ' ':
			return i - 1
		case b == '"' && !escaped:
			return i
		default:
			escaped = b == '\\' && !escaped
		}
	}
	return len(src)
}
