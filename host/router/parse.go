package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/shellscript/recursion"
)

// simple is a simple command. Its first word can be the name of a tool.
type simple struct {
	words    []word
	heredocs []heredoc
	// stdin returns the text of standard input; see [Argv]. A nil stdin means that the command has no standard input.
	stdin func(required bool) (string, bool, error)
}

// heredoc is the text of a heredoc (<<WORD) or herestring (<<<).
type heredoc struct {
	text   string
	offset int
}

var parsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }}

// Parse parses a command string and determines which tool or shell must run the command.
func Parse(command string, tools Tools, opts Options) *Command {
	c := &Command{Layer: Native, Raw: command, Args: []string{}, Kwargs: map[string]json.RawMessage{}}
	if err := checkText(command); err != nil {
		return c.refuse(err)
	}
	if call := pasted(command, tools); call != nil {
		return call
	}
	if s, ok := plain(command); ok {
		return c.toTool(s, tools, opts)
	}
	file, err := parseShell(command)
	var deep *recursion.Error
	if errors.As(err, &deep) {
		return c.refuse(tool.Errorf(tool.InvalidArguments, "The command is nested too deep before %s. Simplify the command, or put it into a script file.", place(command, deep.Offset)))
	}
	if err != nil {
		if s, ok := lenient(command, tools, err); ok {
			return c.toTool(s, tools, opts)
		}
		if !certain(command, err) {
			return c.unread(err)
		}
		return c.refuse(parseError(command, err))
	}
	if len(file.Stmts) == 0 {
		return c.refuse(tool.Errorf(tool.InvalidArguments, "The command is empty. Type a command, or help for a list."))
	}
	s, why := simpleCommand(command, file)
	if s == nil {
		c.nativeWords(command, file)
		c.native(RuleNative, why)
		if opts.Commands {
			if text, names := rewrite(command, file, tools); len(names) > 0 {
				c.Kwargs["command"] = quoteJSON(text)
				c.Reason += "; in the script, " + strings.Join(names, ", ") + " would fail as a native command and is routed to the tool"
			}
		}
		return c
	}
	return c.toTool(s, tools, opts)
}

// checkText returns an error for a text that no shell accepts.
func checkText(command string) *tool.Error {
	if len(command) > MaxCommand {
		return tool.Errorf(tool.InvalidArguments, "The command is %d bytes long; the limit is %d. Write long content to a file and pass the path of the file.", len(command), MaxCommand)
	}
	if i := strings.IndexByte(command, 0); i >= 0 {
		return tool.Errorf(tool.InvalidArguments, "The command contains a NUL byte at %s. Remove this byte.", place(command, i))
	}
	if !utf8.ValidString(command) {
		i := 0
		for i < len(command) {
			r, n := utf8.DecodeRuneInString(command[i:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			i += n
		}
		return tool.Errorf(tool.InvalidArguments, "The command is not valid UTF-8 at %s. Send text, or write the bytes with printf.", place(command, i))
	}
	return nil
}

func parseShell(command string) (*syntax.File, error) {
	p := parsers.Get().(*syntax.Parser) //nolint:forcetypeassert // the pool holds nothing else
	defer parsers.Put(p)
	return p.Parse(recursion.NewReader(command), "")
}

// place returns the line and column of a byte offset as text.
func place(s string, offset int) string {
	offset = min(offset, len(s))
	before := s[:offset]
	line := strings.Count(before, "\n") + 1
	col := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d", line, col)
}

// parseError returns the error of a command that cannot be parsed.
func parseError(command string, err error) *tool.Error {
	var pe syntax.ParseError
	if !errors.As(err, &pe) {
		var le syntax.LangError
		if errors.As(err, &le) {
			return tool.Errorf(tool.InvalidArguments, "The command cannot be parsed at %s: %s. Nothing was run.", place(command, int(le.Pos.Offset())), le.Feature)
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return tool.Errorf(tool.InvalidArguments, "The command cannot be parsed: %w. Nothing was run.", err)
	}
	advice := "Quote special characters, or close what is open."
	switch {
	case strings.Contains(pe.Text, "here-document"):
		advice = "End the heredoc with its delimiter alone on a line. If the text was cut off, send the command again."
	case strings.Contains(pe.Text, "closing quote"):
		advice = `Close the quote; inside '…' an apostrophe is written '\''.`
	}
	return tool.Errorf(tool.InvalidArguments, "The command cannot be parsed at %s: %s. %s Nothing was run.", place(command, int(pe.Pos.Offset())), pe.Text, advice)
}

// simpleCommand returns the only command of a script. If the script is not a single simple command, the second result
// is the reason.
func simpleCommand(src string, file *syntax.File) (*simple, string) {
	if len(file.Stmts) > 1 {
		return nil, "the script has more than one command"
	}
	st := file.Stmts[0]
	call, ok := st.Cmd.(*syntax.CallExpr)
	switch {
	case !ok:
		return nil, "the command is a pipeline, a list or a compound command"
	case st.Negated || st.Background || st.Coprocess:
		return nil, "the command is negated or in the background"
	case len(call.Assigns) > 0:
		return nil, "the command sets variables"
	case len(call.Args) == 0:
		return nil, "the command has no command word"
	}
	s := &simple{words: make([]word, 0, len(call.Args))}
	for _, w := range call.Args {
		s.words = append(s.words, unquote(src, w))
	}
	for _, r := range st.Redirs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			if r.N != nil && r.N.Value != "0" {
				return nil, "the command redirects another descriptor"
			}
			s.heredocs = append(s.heredocs, heredoc{text: heredocBody(src, r), offset: int(r.OpPos.Offset())})
		case syntax.WordHdoc:
			s.heredocs = append(s.heredocs, heredoc{
				text: unquote(src, r.Word).text + "\n", offset: int(r.OpPos.Offset()),
			})
		default:
			if !silencing(r) {
				return nil, "the command redirects input or output"
			}
		}
	}
	return s, ""
}

// silencing reports whether a redirect only discards output or joins output streams. Models often add such redirects.
// They have no effect on a tool.
func silencing(r *syntax.Redirect) bool {
	target, fd := r.Word.Lit(), ""
	if r.N != nil {
		fd = r.N.Value
	}
	switch r.Op {
	case syntax.DplOut:
		return fd == "2" && target == "1"
	case syntax.RdrOut, syntax.AppOut:
		return fd == "2" && target == "/dev/null"
	case syntax.RdrIn:
		return fd == "" && target == "/dev/null"
	}
	return false
}

// nativeWords stores the name and the words of the script's first simple command. The host shows these words to explain
// the route.
func (c *Command) nativeWords(src string, file *syntax.File) {
	call := firstCall(file.Stmts)
	if call == nil {
		return
	}
	c.Name = unquote(src, call.Args[0]).text
	if len(file.Stmts) == 1 && file.Stmts[0].Cmd == syntax.Command(call) {
		for _, w := range call.Args[1:] {
			c.Args = append(c.Args, unquote(src, w).text)
		}
	}
}

func (c *Command) native(rule Rule, reason string) *Command {
	c.Layer, c.Rule, c.Reason = Native, rule, reason
	c.Kwargs = map[string]json.RawMessage{"command": quoteJSON(c.Raw)}
	return c
}

func (c *Command) refuse(err *tool.Error) *Command {
	c.Rule, c.Reason = RuleRefused, "the command is invalid"
	c.Error = err.From(tool.SourceHost)
	return c
}

// divergent matches constructs that bash and the host's parser can read differently: arithmetic, subscripts, tests,
// expansions, arrays, negations, heredocs, and the names of functions and variables.
var divergent = lazyregexp.New("[[!`]|\\(\\(|\\$\\{|\\(\\s*\\)|=\\(|<<|\\b(let|for|select|function|coproc|export|declare|typeset|local|readonly)\\b")

// These variables match errors of the parser at the end of a text: cut if more must follow, and whole if bash needs no
// more, as after a[b] and let.
var (
	cut   = lazyregexp.New("^reached EOF|must be followed|must end with|here-document")
	whole = lazyregexp.New("(\\]\\+?|let)` must be followed")
)

// certain reports whether a text that the parser refuses must not run. Either bash refuses the text, too, or the text
// is cut off. Bash would end an open heredoc at the end of the text.
func certain(command string, err error) bool {
	var pe syntax.ParseError
	if errors.As(err, &pe) && (pe.Incomplete || strings.Contains(pe.Text, "here-document")) &&
		cut.MatchString(pe.Text) && !whole.MatchString(pe.Text) {
		return !strings.Contains(command, "((") && !deferred(command, &pe)
	}
	return !divergent.MatchString(command)
}

// deferred reports whether the parser found an open expansion that bash reads only when it runs the command: in the
// text of a heredoc, or a command substitution of newer versions, such as ${ ls; }.
func deferred(command string, err *syntax.ParseError) bool {
	at := min(int(err.Pos.Offset()), len(command))
	if len(command) > at+2 && command[at:at+2] == "${" && strings.ContainsRune(" \t\n|", rune(command[at+2])) {
		return true
	}
	return strings.Contains(command[:at], "<<") && strings.HasPrefix(err.Text, "reached EOF without")
}

// unread routes a text to the shell that only bash can read. In braces, bash reads the whole text before it runs a part
// of it, so that nothing runs if the syntax is wrong.
func (c *Command) unread(err error) *Command {
	c.native(RuleNative, fmt.Sprintf("only bash can read the command (%v)", err))
	c.Kwargs["command"] = quoteJSON("{ " + c.Raw + "\n}")
	return c
}

// lenient parses a tool command that bash rejects, such as "grep foo( src". Only quotes and backslashes have a special
// meaning. If a quote is not closed, lenient rejects the text, because a truncated command must not run.
func lenient(command string, tools Tools, err error) (*simple, bool) {
	var pe syntax.ParseError
	if errors.As(err, &pe) && (pe.Incomplete || strings.Contains(pe.Text, "here-document")) {
		return nil, false
	}
	if strings.Contains(command, "<<") {
		return nil, false
	}
	words, ok := splitQuoted(command)
	if !ok || len(words) == 0 || words[0].quoted {
		return nil, false
	}
	for _, w := range words {
		// A control operator means that the text is a shell command.
		if !w.quoted && (w.text == "|" || w.text == "||" || w.text == "&&" || w.text == ";" || w.text == "&" ||
			strings.HasSuffix(w.text, ";")) {
			return nil, false
		}
	}
	if _, known := resolve(words[0].text, words[1:], tools); !known {
		return nil, false
	}
	return &simple{words: words}, true
}

// splitQuoted splits a text at unquoted white space and removes quotes. No other character has a special meaning.
func splitQuoted(s string) ([]word, bool) {
	var words []word
	var cur strings.Builder
	in, w := false, word{}
	flush := func(end int) {
		if in {
			w.text, w.end = cur.String(), end
			if !w.quoted {
				w.bare = w.text
			}
			words = append(words, w)
		}
		cur.Reset()
		in, w = false, word{}
	}
	begin := func(i int) {
		if !in {
			in, w = true, word{offset: i}
		}
	}
	for i := 0; i < len(s); i++ {
		switch ch := s[i]; ch {
		case '\n':
			// A further line with text would be a second command.
			if strings.TrimSpace(s[i:]) != "" && (in || len(words) > 0) {
				return nil, false
			}
			flush(i)
		case ' ', '\t', '\r':
			flush(i)
		case '\'':
			begin(i)
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return nil, false
			}
			cur.WriteString(s[i+1 : i+1+end])
			if !w.quoted {
				w.bare = cur.String()[:cur.Len()-end]
			}
			w.quoted = true
			i += end + 1
			w.glued = w.glued || i+1 < len(s) && startsWithLetter(s[i+1:])
		case '"':
			begin(i)
			end := i + 1
			for end < len(s) && s[end] != '"' {
				if s[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(s) {
				return nil, false
			}
			if !w.quoted {
				w.bare = cur.String()
			}
			text, _ := removeBackslashes(s[i+1:end], "$`\"\\")
			cur.WriteString(text)
			w.quoted = true
			i = end
		case '\\':
			if strings.HasPrefix(s[i+1:], "\n") {
				i++
				continue
			}
			begin(i)
			if i+1 < len(s) {
				i++
				cur.WriteByte(s[i])
			}
			w.quoted = true
		default:
			begin(i)
			cur.WriteByte(ch)
		}
	}
	flush(len(s))
	return words, true
}

// unknownTool returns an error for a tool that does not exist, or for a tool that the configuration does not use.
func unknownTool(name string, tools Tools) *tool.Error {
	if advice := tools.Absent(name); advice != "" {
		return tool.Errorf(tool.PermissionDenied, "%s", advice)
	}
	return unknownName("tool", name, tools.AgentNames())
}

// unknownName returns an error for an unknown name. The message suggests a similar known name.
func unknownName(what, name string, known []string) *tool.Error {
	hint := suggest.DidYouMean(name, known)
	if hint == "" && len(known) > 0 && len(known) <= 12 {
		hint = " There are: " + strings.Join(known, ", ") + "."
	}
	return tool.Errorf(tool.NotFound, "Unknown %s %q.%s Run help for a list.", what, name, hint)
}
