package terminal

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/cmd/internal/cli/screen"
)

// candidate is a possible completion of a word.
type candidate struct {
	text  string // replacement for the word; it ends with a space if the word is complete
	about string
}

// promptCommands lists the commands that the prompt itself handles.
var promptCommands = []candidate{
	{"exit ", "end the prompt"}, {"help ", "describe tools"}, {"status ", "show the plugins"},
}

// lastWord splits a text into the part before its last word and the last word. A space after a backslash belongs to the
// word.
func lastWord(text string) (before, word string) {
	start := len(text)
	for start > 0 {
		if c := text[start-1]; (c == ' ' || c == '\t' || c == '\n') && (start < 2 || text[start-2] != '\\') {
			break
		}
		start--
	}
	return text[:start], text[start:]
}

// complete returns the candidates for the last word of a text.
func (r *Prompt) complete(text string) []candidate {
	before, word := lastWord(text)
	words := strings.Fields(before)
	var found []candidate
	switch {
	case len(words) == 0, len(words) == 1 && words[0] == "help":
		found = r.names()
		if len(words) == 0 {
			found = append(found, promptCommands...)
		}
	case len(words) == 1 && strings.HasPrefix(words[0], "field:"):
		found = r.commands(strings.TrimPrefix(words[0], "field:"))
	case strings.HasPrefix(word, "--"):
		found = r.parameters(words)
	default:
		found = r.paths(word)
	}
	found = slices.DeleteFunc(found, func(c candidate) bool { return !strings.HasPrefix(c.text, word) })
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Compare(a.text, b.text) })
	return slices.CompactFunc(found, func(a, b candidate) bool { return a.text == b.text })
}

// names returns candidates for the agent tools and the field namespaces.
func (r *Prompt) names() []candidate {
	var out []candidate
	for _, t := range r.Host.Tools() {
		switch {
		case !t.Enabled:
		case t.Namespace == "":
			out = append(out, candidate{t.Name + " ", summary(t.Description)})
		default:
			out = append(out, candidate{"field:" + t.Namespace + " ", "tools of " + t.Namespace})
		}
	}
	return out
}

// commands returns candidates for the tools of a namespace.
func (r *Prompt) commands(namespace string) []candidate {
	var out []candidate
	for _, t := range r.Host.Tools() {
		if t.Enabled && t.Namespace == namespace {
			out = append(out, candidate{t.Name + " ", summary(t.Description)})
		}
	}
	return out
}

// parameters returns candidates for the parameters of the tool that the words name.
func (r *Prompt) parameters(words []string) []candidate {
	for _, t := range r.Host.Tools() {
		if t.FullName == words[0] || len(words) > 1 && "field:"+t.Namespace == words[0] && t.Name == words[1] {
			var out []candidate
			for _, name := range t.Parameters() {
				out = append(out, candidate{text: "--" + name + " "})
			}
			return out
		}
	}
	return nil
}

// summary returns the first sentence of a description, which is shown in lists of candidates.
func summary(description string) string {
	text := screen.Printable(strings.Join(strings.Fields(description), " "))
	if i := strings.Index(text, ". "); i > 0 {
		text = text[:i+1]
	}
	return text
}

// quoted escapes the characters of a path that have a special meaning in a command.
var quoted = strings.NewReplacer(" ", `\ `, "'", `\'`, `"`, `\"`, `\`, `\\`, "$", `\$`, "`", "\\`", "(", `\(`, ")",
	`\)`, "&", `\&`, ";", `\;`, "|", `\|`, "<", `\<`, ">", `\>`, "*", `\*`, "?", `\?`, "[", `\[`, "#", `\#`, "!", `\!`)

// paths returns candidates for directory entries that begin with the given word.
func (r *Prompt) paths(word string) []candidate {
	cwd, err := r.Host.Cwd(r.Request)
	if err != nil {
		return nil
	}
	typed, _ := filepath.Split(word)
	dir := unescape(typed)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(cwd, dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []candidate
	for _, e := range entries {
		if screen.Printable(e.Name()) != e.Name() {
			continue // a name with control characters cannot be shown
		}
		name := typed + quoted.Replace(e.Name())
		if e.IsDir() {
			out = append(out, candidate{text: name + "/"})
		} else {
			out = append(out, candidate{text: name + " "})
		}
	}
	return out
}

// unescape removes the backslashes that quoted inserted.
func unescape(word string) string {
	var b strings.Builder
	escaped := false
	for _, r := range word {
		if r == '\\' && !escaped {
			escaped = true
			continue
		}
		escaped = false
		b.WriteRune(r)
	}
	return b.String()
}
