package router

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// word is one shell word after quote removal.
type word struct {
	text string
	// bare is the unquoted literal at its beginning, up to the first quote or expansion.
	bare string
	// quoted: some part of it stands in quotes or is escaped.
	quoted bool
	// dynamic: it holds something that a shell would expand.
	dynamic bool
	// glued: letters follow a closing single quote.
	glued  bool
	offset int // in the command string
	end    int
}

// unquote removes quotes as bash does, and expands nothing: what would be expanded
// stays as it is written.
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

// inside gives what stands between quotes as it is written: the parser's own value
// has lost carriage returns.
func inside(src string, n syntax.Node, open int) string {
	return src[int(n.Pos().Offset())+open : n.End().Offset()-1]
}

// keepExpansions gives src[start:end], which stands between double quotes or in a
// heredoc whose delimiter is not quoted: a backslash counts only before the
// characters of special and a newline, and what would be expanded stays as it is written.
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

// removeBackslashes takes a backslash off the character after it; with a set, only
// off those in it. A backslash before a newline goes with it.
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

// catHeredoc recognises "$(cat <<'E' … E)", which models write to pass a long
// text, and gives the text.
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
	if !ok || len(call.Assigns) > 0 || len(call.Args) != 1 || call.Args[0].Lit() != "cat" || r.N != nil || r.Hdoc == nil {
		return "", false
	}
	return strings.TrimRight(heredocBody(src, r), "\n"), true
}

// heredocBody gives the text of a heredoc: verbatim when its delimiter is quoted,
// else without the backslashes that bash would take off.
func heredocBody(src string, r *syntax.Redirect) string {
	if r.Hdoc == nil {
		return "" // there is no line in it
	}
	quoted := false
	for _, p := range r.Word.Parts {
		lit, ok := p.(*syntax.Lit)
		quoted = quoted || !ok || strings.Contains(lit.Value, `\`)
	}
	// The delimiter's line counts as a part of the body.
	start, end := int(r.Hdoc.Pos().Offset()), int(r.Hdoc.End().Offset())
	end = start + strings.LastIndexByte(src[start:end], '\n') + 1
	for src[start-1] != '\n' {
		start-- // the parser skips what it takes for the end of a line
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
