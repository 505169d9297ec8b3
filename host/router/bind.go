package router

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"
)

// binder binds the words of a command to the parameters of a tool. It collects all problems in the command.
type binder struct {
	src      string
	sig      tool.Signature
	out      map[string]json.RawMessage
	problems []string
	more     int             // number of unreported problems beyond maxProblems
	wrong    map[string]bool // parameters with a reported problem
	position []positional
	rest     []heredoc
	lists    map[string][]json.RawMessage // elements bound to each array so far; out contains a placeholder for each array
	help     string                       // help flag of the command, or empty
}

type positional struct {
	text   string
	offset int
}

func (c *Command) bind(sig tool.Signature, s *simple, args []word) *Command {
	c.bindWords(sig, s, args)
	return c
}

// bindWords binds the words of a command. It returns the number of words that are not flags.
func (c *Command) bindWords(sig tool.Signature, s *simple, args []word) (operands int) {
	b := newBinder(c.Raw, sig, s.heredocs)
	b.words(args)
	if s.stdin != nil {
		b.bindStdin(s.stdin)
	}
	if b.help != "" {
		c.IsHelp, c.HelpVerbose, c.Rule, c.Reason = true, b.help == "--help", RuleHelp, "the command asks for help"
		c.Args = b.positionals()
		return 0
	}
	if c.complete(sig, b); c.Error == nil {
		c.Args = b.positionals()
	}
	return len(b.position)
}

// complete adds default values to the bound arguments and collects all errors.
func (c *Command) complete(sig tool.Signature, b *binder) {
	b.out = sig.Schema.Coerce(b.out)
	c.Kwargs = b.out
	complete, bad := sig.Schema.Check(b.out)
	for _, v := range bad {
		if !b.wrong[v.Param] {
			b.problems = append(b.problems, b.say(v.Message))
		}
	}
	if len(b.problems) > 0 {
		c.refuse(b.error(cmp.Or(c.Alias, c.Name), c.see()))
		return
	}
	c.Arguments = complete
}

func newBinder(src string, sig tool.Signature, heredocs []heredoc) *binder {
	return &binder{
		src: src, sig: sig, out: make(map[string]json.RawMessage), wrong: make(map[string]bool), rest: heredocs,
	}
}

// words binds all words and heredocs of a command.
func (b *binder) words(args []word) {
	onlyPositionals := false
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case b.isGlued(w):
		case !onlyPositionals && b.asksHelp(w):
			b.help = w.text
			return
		case onlyPositionals || !isFlag(w):
			b.position = append(b.position, positional{w.text, w.offset})
		case w.bare == "--" && w.text == "--":
			onlyPositionals = true
		default:
			i = b.flag(args, i)
		}
	}
	b.bindHeredocs()
	b.bindPositionals()
	b.closeLists()
}

// positionals returns the words that are neither flags nor their values.
func (b *binder) positionals() []string {
	out := make([]string, len(b.position))
	for i, p := range b.position {
		out[i] = p.text
	}
	return out
}

// closeLists replaces the placeholder of each array in out by the elements of the array.
func (b *binder) closeLists() {
	for name, items := range b.lists {
		if len(items) == 0 {
			b.out[name] = json.RawMessage("[]")
			continue
		}
		b.out[name], _ = json.Marshal(items) // ignore the error: raw JSON can always be encoded
	}
}

// asksHelp reports whether a word is a flag that requests help. A word such as "-h" does not request help if it is the
// value of another flag.
func (b *binder) asksHelp(w word) bool {
	return helpFlag(w) && (w.text == "-h" || b.param("help") == nil)
}

// maxProblems limits the number of separately reported problems.
const maxProblems = 20

func (b *binder) fail(offset int, format string, a ...any) { b.failWith(offset, "", format, a...) }

// failWith reports a problem together with a hint. The hint must be a sentence.
func (b *binder) failWith(offset int, hint, format string, a ...any) {
	if len(b.problems) == maxProblems {
		b.more++
		return
	}
	problem := fmt.Sprintf(format, a...) + " (" + place(b.src, offset) + ")"
	if hint != "" {
		problem += "." + hint
	}
	b.problems = append(b.problems, problem)
}

// error returns the error with all problems. The argument "name" is the name of the tool for the message. The argument
// "see" is a sentence that names the source of help.
func (b *binder) error(name, see string) *tool.Error {
	problems := b.problems
	if extra := len(problems) - maxProblems; extra > 0 {
		problems, b.more = problems[:maxProblems:maxProblems], b.more+extra
	}
	if b.more > 0 {
		problems = append(problems, fmt.Sprintf("and %d more problems", b.more))
	}
	return tool.Errorf(tool.InvalidArguments, "%s: %s Nothing was run; %s.", name, sentences(problems), see)
}

// sentences joins problems. A problem can already end with a question mark or a full stop.
func sentences(problems []string) string {
	var out strings.Builder
	for i, p := range problems {
		p = strings.TrimSuffix(p, ".")
		out.WriteString(p)
		last, asks := i == len(problems)-1, strings.HasSuffix(p, "?")
		switch {
		case last && !asks:
			out.WriteString(".")
		case !last && !asks:
			out.WriteString("; ")
		case !last:
			out.WriteString(" Also: ")
		}
	}
	return out.String()
}

// failFor reports a problem with one parameter.
func (b *binder) failFor(p *tool.Param, offset int, format string, a ...any) {
	b.wrong[p.Name] = true
	b.fail(offset, format, a...)
}

// flag binds the flag at args[i]. It returns the index of the last word that belongs to this flag.
func (b *binder) flag(args []word, i int) int {
	w := args[i]
	name, value, hasValue := strings.Cut(strings.TrimLeft(w.text, "-"), "=")
	if short, _, _ := strings.Cut(w.text, "="); strings.HasPrefix(w.bare, "-") && !strings.HasPrefix(w.bare, "--") &&
		b.sig.Names[short] != "" {
		name = short
	} else if strings.HasPrefix(w.bare, "-") && !strings.HasPrefix(w.bare, "--") {
		b.fail(w.offset, "unknown flag %q; begin flags with two dashes, and quote a value that begins with a dash", shorten(w.text))
		return i
	}
	if name == "json" && b.param("json") == nil {
		if !hasValue && i+1 < len(args) {
			i++
			if b.isGlued(args[i]) {
				return i
			}
			value = args[i].text
		}
		b.json(w.offset, value)
		return i
	}
	p, negated := b.param(name), false
	if p == nil {
		if positive, ok := strings.CutPrefix(name, "no-"); ok || strings.HasPrefix(name, "no_") {
			if !ok {
				positive = name[len("no_"):]
			}
			if p = b.param(positive); p != nil && !p.Is("boolean") {
				p = nil
			}
			negated = p != nil
		}
	}
	switch {
	case p == nil && b.dropped(name):
		if !hasValue && i+1 < len(args) && !isFlag(args[i+1]) {
			return i + 1
		}
		return i
	case p == nil && b.sig.Schema.Open():
		p = &tool.Param{Name: strings.ReplaceAll(name, "-", "_")}
		if !hasValue && (i+1 >= len(args) || isFlag(args[i+1])) {
			b.set(p, w.offset, "true")
			return i
		}
	case p == nil:
		b.failWith(w.offset, suggest.DidYouMean(name, b.names()), "unknown parameter %q", shorten(name))
		// The next word is probably the value of the unknown flag. Skip the word, because it is not a positional
		// argument.
		if !hasValue && i+1 < len(args) && !isFlag(args[i+1]) {
			return i + 1
		}
		return i
	}
	switch {
	case negated && hasValue:
		b.fail(w.offset, "--%s takes no value", shorten(name))
	case negated:
		b.set(p, w.offset, "false")
	case hasValue:
		b.set(p, w.offset, value)
	case !p.Only("boolean") && b.heredocFollows(args, i):
		b.set(p, w.offset, b.takeHeredoc(w.end, args, i))
	case p.Only("boolean"):
		if i+1 < len(args) && !args[i+1].quoted && isBoolean(args[i+1].text) {
			i++
			b.set(p, w.offset, args[i].text)
		} else {
			b.set(p, w.offset, "true")
		}
	case i+1 >= len(args):
		b.failFor(p, w.offset, "parameter %q needs a value (%s)", b.nameOf(p), p.TypeName())
	case isFlag(args[i+1]) && b.declared(args[i+1]):
		b.failFor(p, w.offset, "parameter %q needs a value (%s); %s is a flag, and a value like this must be quoted", b.nameOf(p), p.TypeName(), shorten(args[i+1].text))
	default:
		if i++; b.isGlued(args[i]) {
			b.wrong[p.Name] = true
		} else {
			b.set(p, w.offset, args[i].text)
		}
	}
	return i
}

// isGlued reports whether letters directly follow a closing single quote in a word. In this case, it also records a
// problem.
func (b *binder) isGlued(w word) bool {
	if w.glued {
		b.fail(w.offset, `letters follow a closing single quote in %q: bash would join them silently. Inside '…' write an apostrophe as '\''`, shorten(b.src[w.offset:w.end]))
	}
	return w.glued
}

// param returns the parameter with the given name. If no name matches exactly, it ignores case, dashes and underscores.
// It then returns the parameter only if exactly one name matches.
func (b *binder) param(name string) *tool.Param {
	if to, ok := b.sig.Names[name]; ok && to != "" {
		return b.sig.Schema.Param(to)
	}
	if to, ok := b.sig.Names[strings.ReplaceAll(name, "-", "_")]; ok && to != "" {
		return b.sig.Schema.Param(to)
	}
	if p := b.sig.Schema.Param(name); p != nil {
		return p
	}
	if p := b.sig.Schema.Param(strings.ReplaceAll(name, "-", "_")); p != nil {
		return p
	}
	var found *tool.Param
	for _, p := range b.sig.Schema.Params() {
		if suggest.Fold(p.Name) == suggest.Fold(name) {
			if found != nil {
				return nil
			}
			found = p
		}
	}
	return found
}

// dropped reports whether the alias ignores a parameter.
func (b *binder) dropped(name string) bool {
	to, ok := b.sig.Names[name]
	return ok && to == "" && b.sig.Schema.Param(name) == nil
}

func (b *binder) declared(w word) bool {
	if !strings.HasPrefix(w.bare, "--") {
		return false
	}
	name, _, _ := strings.Cut(strings.TrimLeft(w.bare, "-"), "=")
	return b.param(name) != nil || b.param(strings.TrimPrefix(name, "no-")) != nil || w.bare == "--"
}

func (b *binder) names() []string {
	var out []string
	for _, p := range b.sig.Schema.Params() {
		out = append(out, b.nameOf(p))
	}
	for _, name := range slices.Sorted(maps.Keys(b.sig.Names)) {
		if b.sig.Names[name] != "" && !strings.HasPrefix(name, "-") && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// nameOf returns the name of a parameter for messages. If the command uses an alias, the alias can define a different
// name.
func (b *binder) nameOf(p *tool.Param) string { return b.sig.NameOf(p.Name) }

// say replaces the parameter names in a message by the names that the alias defines.
func (b *binder) say(message string) string {
	for _, to := range b.sig.Names {
		if name := b.sig.NameOf(to); to != "" && name != to {
			message = strings.ReplaceAll(message, strconv.Quote(to), strconv.Quote(name))
		}
	}
	return message
}

// set converts a text to the type of a parameter and binds the result. If the schema permits an array, each repetition
// of a flag adds an element to the array.
func (b *binder) set(p *tool.Param, offset int, text string) {
	prev, again := b.out[p.Name]
	if p.Only("array") {
		items, ok := arrayItems(text)
		if !ok {
			v, err := coerce(p.ItemTypes, text)
			if err != nil {
				b.failFor(p, offset, "parameter %q: %v", b.nameOf(p), err)
				return
			}
			items = []json.RawMessage{v}
		}
		b.list(p, items...)
		return
	}
	v, err := coerce(p.Types, text)
	switch {
	case again && !p.Is("array"):
		b.fail(offset, "parameter %q is given twice", b.nameOf(p))
	case err != nil:
		b.failFor(p, offset, "parameter %q: %v", b.nameOf(p), err)
	case again:
		if b.lists[p.Name] == nil {
			b.list(p, prev)
		}
		b.list(p, v)
	default:
		b.out[p.Name] = v
	}
}

// list appends elements to the array of a parameter.
func (b *binder) list(p *tool.Param, items ...json.RawMessage) {
	if b.lists == nil {
		b.lists = make(map[string][]json.RawMessage)
	}
	b.lists[p.Name] = append(b.lists[p.Name], items...)
	b.out[p.Name] = json.RawMessage("[]")
}

// json binds the fields of a JSON object, which is the value of the flag --json.
func (b *binder) json(offset int, text string) {
	var obj map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &obj); err != nil {
		b.fail(offset, "--json needs a JSON object: %v", err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		key, v := name, obj[name]
		if b.dropped(name) {
			continue
		}
		if p := b.param(name); p != nil {
			key = p.Name
		}
		if _, again := b.out[key]; again {
			b.fail(offset, "parameter %q is given twice", key)
			continue
		}
		b.out[key] = v
	}
}

// heredocFollows reports whether a heredoc directly follows args[i].
func (b *binder) heredocFollows(args []word, i int) bool {
	next := len(b.src) + 1
	if i+1 < len(args) {
		next = args[i+1].offset
	}
	return slices.ContainsFunc(b.rest, func(h heredoc) bool { return h.offset >= args[i].end && h.offset < next })
}

func (b *binder) takeHeredoc(after int, args []word, i int) string {
	for k, h := range b.rest {
		if h.offset >= after && (i+1 >= len(args) || h.offset < args[i+1].offset) {
			b.rest = slices.Delete(slices.Clone(b.rest), k, k+1)
			return strings.TrimSuffix(h.text, "\n")
		}
	}
	return ""
}

// bindHeredocs binds the remaining heredocs to the stdin parameter. Heredocs directly after a flag are already bound to
// that flag.
func (b *binder) bindHeredocs() {
	for i, h := range b.rest {
		p := b.sig.Schema.Param(b.sig.Stdin)
		switch {
		case p == nil:
			b.fail(h.offset, "the tool reads no standard input; put the heredoc directly after the flag whose value it is")
		case i > 0 || b.out[p.Name] != nil:
			b.fail(h.offset, "parameter %q is given twice", b.nameOf(p))
		default:
			b.set(p, h.offset, h.text)
		}
	}
}

// bindPositionals binds the positional words to the parameters without a value, in the order of the schema.
func (b *binder) bindPositionals() {
	words := b.position
	params := b.sig.Schema.Params()
	for i, p := range params {
		if len(words) == 0 {
			return
		}
		if _, set := b.out[p.Name]; set {
			continue
		}
		take := 1
		if p.Only("array") && p.Required &&
			!slices.ContainsFunc(params[i+1:], func(q *tool.Param) bool { return q.Required }) {
			take = len(words)
		}
		for _, w := range words[:take] {
			b.set(p, w.offset, w.text)
		}
		words = words[take:]
	}
	if len(words) > 0 {
		what := "argument"
		if len(words) > 1 {
			what = fmt.Sprintf("%d arguments beginning with", len(words))
		}
		b.fail(words[0].offset, "too many arguments: no parameter is left for the %s %q", what, shorten(words[0].text))
	}
}

func helpFlag(w word) bool { return !w.quoted && (w.text == "-h" || w.text == "--help") }

// isFlag reports whether an unquoted word has the form of a flag. A negative number is not a flag.
func isFlag(w word) bool {
	if len(w.bare) < 2 || w.bare[0] != '-' {
		return false
	}
	digits := strings.TrimPrefix(w.bare[1:], ".")
	return digits == "" || digits[0] < '0' || digits[0] > '9'
}
