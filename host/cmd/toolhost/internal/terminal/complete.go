package terminal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/cmd/toolhost/internal/cli"
)

// complete completes the word before the cursor.
func (r *Prompt) complete(line string, pos int) (string, int, bool) {
	start := strings.LastIndexAny(line[:pos], " \t") + 1
	word, first := line[start:pos], strings.TrimSpace(line[:start]) == ""
	var candidates []string
	switch {
	case first:
		for _, t := range r.Host.Tools() {
			if t.Enabled && t.Namespace == "" {
				candidates = append(candidates, t.Name+" ")
			} else if t.Enabled {
				candidates = append(candidates, "field:"+t.Namespace+" "+t.Name+" ")
			}
		}
		candidates = append(candidates, "help ", "status", "exit")
	case strings.HasPrefix(word, "--"):
		for _, name := range r.parameters(line[:start]) {
			candidates = append(candidates, "--"+name+" ")
		}
	default:
		candidates = r.paths(word)
	}
	candidates = slices.DeleteFunc(candidates, func(c string) bool { return !strings.HasPrefix(c, word) })
	done := commonPrefix(candidates)
	if len(done) <= len(word) {
		return "", 0, false
	}
	return line[:start] + done + line[pos:], start + len(done), true
}

func (r *Prompt) parameters(before string) []string {
	words := strings.Fields(before)
	for _, t := range r.Host.Tools() {
		if len(words) > 0 && t.FullName == words[0] || len(words) > 1 && "field:"+t.Namespace == words[0] && t.Name == words[1] {
			return t.Parameters()
		}
	}
	return nil
}

// paths returns the directory entries that begin with the given word.
func (r *Prompt) paths(word string) []string {
	cwd, err := r.Host.Cwd(r.Request)
	if err != nil {
		return nil
	}
	dir, _ := filepath.Split(word)
	at := dir
	if !filepath.IsAbs(at) {
		at = filepath.Join(cwd, dir)
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		name := dir + e.Name()
		if strings.ContainsAny(name, " '\"\\$`") || cli.Printable(name) != name {
			continue // skip a name that needs quotes or contains control characters
		}
		if e.IsDir() {
			name += "/"
		} else {
			name += " "
		}
		out = append(out, name)
	}
	return out
}

func commonPrefix(words []string) string {
	if len(words) == 0 {
		return ""
	}
	prefix := words[0]
	for _, w := range words[1:] {
		for !strings.HasPrefix(w, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix
}
