package config

import (
	"bytes"
	"encoding/json"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// nestedHCL finds where a file goes too deep; nil: nowhere.
func nestedHCL(src []byte, name string) *hcl.Range {
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos) // what is wrong with it the parser says
	return nestedTokens(tokens, true)
}

// nestedExpression is nestedHCL for an expression alone, which line ends do not end.
func nestedExpression(src []byte, name string) *hcl.Range {
	tokens, _ := hclsyntax.LexExpression(src, name, hcl.InitialPos)
	return nestedTokens(tokens, false)
}

// closers are the tokens that end what others begin.
var closers = map[hclsyntax.TokenType]hclsyntax.TokenType{
	hclsyntax.TokenOBrace:          hclsyntax.TokenCBrace,
	hclsyntax.TokenOBrack:          hclsyntax.TokenCBrack,
	hclsyntax.TokenOParen:          hclsyntax.TokenCParen,
	hclsyntax.TokenOQuote:          hclsyntax.TokenCQuote,
	hclsyntax.TokenOHeredoc:        hclsyntax.TokenCHeredoc,
	hclsyntax.TokenTemplateInterp:  hclsyntax.TokenTemplateSeqEnd,
	hclsyntax.TokenTemplateControl: hclsyntax.TokenTemplateSeqEnd,
}

// group is what stands between two brackets, or in a text.
type group struct {
	closer hclsyntax.TokenType
	lines  bool // a line end ends an item
	around int  // how deep it stands
	parts  int  // of the item: its operators, and how high its groups are
	blocks int  // directives of a text, which have what follows in them
	height int  // of its highest item
}

func (g *group) depth() int { return g.around + g.blocks + g.parts }

// next begins another item, which does not stand in the one before.
func (g *group) next() { g.height, g.parts = max(g.height, g.parts), 0 }

// nestedTokens counts more than the parsers descend, never less: how operators bind is not looked at,
// so all parts of an item are taken to stand in each other.
func nestedTokens(tokens hclsyntax.Tokens, lines bool) *hcl.Range {
	open := []group{{lines: lines}}
	for i := range tokens {
		in := &open[len(open)-1]
		switch t := tokens[i].Type; t {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			if t == hclsyntax.TokenTemplateInterp || t == hclsyntax.TokenTemplateControl {
				in.next()
			}
			if t == hclsyntax.TokenTemplateControl && !word(tokens[i+1:], "else", "endif", "endfor") {
				in.blocks++
			}
			open = append(open, group{closer: closers[t], around: in.depth() + 1, lines: t == hclsyntax.TokenOBrace && !word(tokens[i+1:], "for")})
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			open = closed(open, t)
		case hclsyntax.TokenComma:
			in.next()
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
			if in.lines && bytes.HasSuffix(tokens[i].Bytes, []byte("\n")) {
				in.next()
			}
		case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
			hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq,
			hclsyntax.TokenQuestion, hclsyntax.TokenAnd, hclsyntax.TokenOr:
			in.parts++
		}
		if open[len(open)-1].depth() > maxNested {
			return &tokens[i].Range
		}
	}
	return nil
}

// word reports whether the next token is one of some words.
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

// closed ends the innermost group that a token can end, with those in it. Another one ends nothing,
// so that what is only opened is counted however it is mixed.
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

// nestedJSON is nestedHCL for JSON, whose texts may hold expressions.
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

// nestedText reports whether a template in a JSON string, in its quotes, goes too deep. It is looked at
// without the escapes of JSON, which may spell anything.
func nestedText(quoted []byte, name string) bool {
	var text string
	if json.Unmarshal(quoted, &text) != nil { // the parser refuses it
		return false
	}
	tokens, _ := hclsyntax.LexTemplate([]byte(text), name, hcl.InitialPos)
	return nestedTokens(tokens, false) != nil
}

// lenJSONString gives how many bytes there are before the quote that ends a string, from the one that
// begins it. For the parser a control character ends one, too, with the byte before it.
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
