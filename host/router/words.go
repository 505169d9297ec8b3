package router

import (
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
	// dynamic: outside quotes it holds something that a shell would expand.
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
				s, err := expand.Literal(nil, &syntax.Word{Parts: []syntax.WordPart{p}})
				if err != nil {
					verbatim(p)
				} else {
					text.WriteString(s)
				}
			} else {
				text.WriteString(p.Value)
			}
		case *syntax.DblQuoted:
			out.quoted = true
			if body, ok := catHeredoc(src, p); ok {
				text.WriteString(body)
			} else {
				text.WriteString(unquoteDouble(src, p.Parts))
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

// unquoteDouble gives what stands between double quotes, or in a heredoc whose
// delimiter is not quoted: a backslash counts only before $ ` " \ and a newline.
func unquoteDouble(src string, parts []syntax.WordPart) string {
	var text strings.Builder
	for _, part := range parts {
		if lit, ok := part.(*syntax.Lit); ok {
			s, _ := removeBackslashes(lit.Value, "$`\"\\")
			text.WriteString(s)
			continue
		}
		text.WriteString(src[part.Pos().Offset():part.End().Offset()])
	}
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
	var text strings.Builder
	for _, part := range r.Hdoc.Parts {
		lit, ok := part.(*syntax.Lit)
		switch {
		case !ok:
			text.WriteString(src[part.Pos().Offset():part.End().Offset()])
		case quoted:
			text.WriteString(lit.Value)
		default:
			s, _ := removeBackslashes(lit.Value, "$`\\")
			text.WriteString(s)
		}
	}
	if r.Op != syntax.DashHdoc {
		return text.String()
	}
	lines := strings.SplitAfter(text.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimLeft(lines[i], "\t")
	}
	return strings.Join(lines, "")
}
