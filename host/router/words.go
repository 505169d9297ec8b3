package router

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// word is a shell word after quote removal.
type word struct {
	text string
	// bare is the text before the first quote or expansion.
	bare string
	// quoted reports whether any character of the word is quoted or escaped.
	quoted bool
	// dynamic reports whether a shell would expand any part of the word.
	dynamic bool
	// glued reports whether letters directly follow a closing single quote.
	glued  bool
	offset int // byte offset of the word in the command string
	end    int
}

// unquote removes quotes as bash does. It does not change expansions.
func unquote(src string, w *syntax.Word) word {
	out := word{offset: int(w.Pos().Offset()), end: int(w.End().Offset())}
	var text strings.Builder
	verbatim := func(n syntax.Node) {
		text.WriteString(src[n.Pos().Offset():n.End().Offset()])
	}
	leading := true
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			s, escaped := removeBackslashes(p.Value, "")
			text.WriteString(s)
			out.quoted = out.quoted || escaped
			out.dynamic = out.dynamic || hasGlob(p.Value) || i == 0 && strings.HasPrefix(p.Value, "~")
			if leading && !escaped {
				out.bare += s
			}
			if i > 0 && startsWithLetter(p.Value) {
				if q, ok := w.Parts[i-1].(*syntax.SglQuoted); ok && !q.Dollar {
					out.glued = true
				}
			}
			leading = leading && !escaped
			continue
		case *syntax.SglQuoted:
			out.quoted = true
			if p.Dollar {
				s, err := expand.Literal(nil, &syntax.Word{Parts: []syntax.WordPart{
					&syntax.SglQuoted{Dollar: true, Value: inside(src, p, len("$'"))},
				}})
				if err != nil {
					verbatim(p)
				} else {
					text.WriteString(s)
				}
			} else {
				text.WriteString(inside(src, p, len("'")))
			}
		case *syntax.DblQuoted:
			out.quoted = true
			if body, ok := catHeredoc(src, p); ok {
				text.WriteString(body)
			} else {
				out.dynamic = out.dynamic || slices.ContainsFunc(p.Parts, func(n syntax.WordPart) bool {
					_, ok := n.(*syntax.Lit)
					return !ok
				})
				open := len(`"`)
				if p.Dollar {
					open = len(`$"`)
				}
				start, end := int(p.Pos().Offset())+open, int(p.End().Offset())-len(`"`)
				text.WriteString(keepExpansions(src, p.Parts, start, end, "$`\"\\"))
			}
		default:
			out.dynamic = true
			verbatim(p)
		}
		leading = false
	}
	out.text = text.String()
	return out
}

// inside returns the source text between quotes. It does not use the text in the syntax tree, which lacks
// carriage returns.
func inside(src string, n syntax.Node, open int) string {
	return src[int(n.Pos().Offset())+open : n.End().Offset()-1]
}

// keepExpansions returns src[start:end] without some backslashes. This text is in double quotes or in a heredoc with an
// unquoted delimiter. A backslash is removed only before a newline or before a character in special. Expansions do not
// change.
func keepExpansions(src string, parts []syntax.WordPart, start, end int, special string) string {
	var text strings.Builder
	literal := func(to int) {
		s, _ := removeBackslashes(src[start:max(start, to)], special)
		text.WriteString(s)
	}
	for _, part := range parts {
		if _, ok := part.(*syntax.Lit); !ok {
			literal(int(part.Pos().Offset()))
			start = min(int(part.End().Offset()), end)
			text.WriteString(src[part.Pos().Offset():start])
		}
	}
	literal(end)
	return text.String()
}

// removeBackslashes removes the backslash before each character in set. An empty set means all characters. If a newline
// follows the backslash, the newline is also removed.
func removeBackslashes(s, set string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, false
	}
	var out strings.Builder
	escaped := false
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			next := s[i+1]
			if next == '\n' {
				i++
				continue
			}
			if set == "" || strings.IndexByte(set, next) >= 0 {
				escaped = true
				i++
				out.WriteByte(next)
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String(), escaped
}

func hasGlob(lit string) bool {
	for i := 0; i < len(lit); i++ {
		switch lit[i] {
		case '\\':
			i++
		case '*', '?', '[', '{':
			return true
		}
	}
	return false
}

func startsWithLetter(s string) bool {
	return s != "" && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z' || s[0] >= 0x80)
}

// catHeredoc returns the text of "$(cat <<'E' … E)". Models use this form to pass a long text.
func catHeredoc(src string, q *syntax.DblQuoted) (string, bool) {
	if len(q.Parts) != 1 {
		return "", false
	}
	sub, ok := q.Parts[0].(*syntax.CmdSubst)
	if !ok || len(sub.Stmts) != 1 || len(sub.Stmts[0].Redirs) != 1 {
		return "", false
	}
	call, ok := sub.Stmts[0].Cmd.(*syntax.CallExpr)
	r := sub.Stmts[0].Redirs[0]
	if !ok || len(call.Assigns) > 0 || len(call.Args) != 1 || call.Args[0].Lit() != "cat" || r.N != nil ||
		r.Hdoc == nil {
		return "", false
	}
	return strings.TrimRight(heredocBody(src, r), "\n"), true
}

// heredocBody returns the text of a heredoc. If the delimiter is unquoted, heredocBody removes backslashes as bash
// does.
func heredocBody(src string, r *syntax.Redirect) string {
	if r.Hdoc == nil {
		return "" // the heredoc is empty
	}
	quoted := false
	for _, p := range r.Word.Parts {
		lit, ok := p.(*syntax.Lit)
		quoted = quoted || !ok || strings.Contains(lit.Value, `\`)
	}
	// The text in the syntax tree also contains the line with the delimiter.
	start, end := int(r.Hdoc.Pos().Offset()), int(r.Hdoc.End().Offset())
	end = start + strings.LastIndexByte(src[start:end], '\n') + 1
	for src[start-1] != '\n' {
		start-- // include bytes that the parser skipped because they look like a line ending
	}
	text := src[start:end]
	if !quoted {
		text = keepExpansions(src, r.Hdoc.Parts, start, end, "$`\\")
	}
	if r.Op != syntax.DashHdoc {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimLeft(lines[i], "\t")
	}
	return strings.Join(lines, "")
}
