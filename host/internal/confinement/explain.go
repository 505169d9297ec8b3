package confinement

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/config"
	"toolhost.dev/host/internal/lazyregexp"
	"toolhost.dev/sandbox/confine"
)

// refusedByMask matches lines in which a program reports an access that a mask refused.
var refusedByMask = lazyregexp.New(`(?im)^.*(?:permission denied|read-only|resource busy|not permitted|invalid cross-device link|EACCES|EROFS|EBUSY).*$`)

// refusals lists substrings of the messages that refusedByMask matches. A search for the substrings is much faster than
// the expression, and most output contains no such substring.
var refusals = []string{"ermission denied", "ead-only", "esource busy", "ot permitted", "nvalid cross-device link",
	"EACCES", "EROFS", "EBUSY"}

// explainMasks returns messages about the masks that caused errors in the printed output. Without these messages, a
// model would look for a way around the masks.
func (l *Launcher) explainMasks(p *config.Plugin, roots []tool.Root, printed string) (out []string) {
	if len(roots) == 0 {
		return nil
	}
	masked := l.parts.masks.processesOf(p.Name, roots)
	if len(masked) == 0 ||
		!slices.ContainsFunc(refusals, func(text string) bool { return strings.Contains(printed, text) }) {
		return nil
	}
	lines := refusedByMask.FindAllString(printed, 20)
	var denied, protected []string
	for _, m := range masked {
		m.mu.Lock()
		for path, kind := range m.applied {
			if kind == confine.Fix ||
				!slices.ContainsFunc(lines, func(line string) bool { return names(line, filepath.Base(path)) }) {
				continue
			}
			if kind == confine.Hide {
				denied = append(denied, path)
			} else {
				protected = append(protected, path)
			}
		}
		m.mu.Unlock()
	}
	if text := shorten(denied); text != "" {
		out = append(out, fmt.Sprintf("The operator denies %s to all tools (permissions.paths.deny). No other way works. Continue without the content, or ask the user for what you need", text))
	}
	var settings []string
	protected = slices.DeleteFunc(protected, func(path string) bool {
		is := slices.Contains(l.settings(), filepath.Base(path))
		if is {
			settings = append(settings, path)
		}
		return is
	})
	if text := shorten(protected); text != "" {
		out = append(out, fmt.Sprintf("The operator protects %s (permissions.paths.protect). Tools can read it, but not change it. Ask the user to make the change", text))
	}
	if text := shorten(settings); text != "" {
		out = append(out, fmt.Sprintf("Tools can read %s, but not change it, because editors and agents load it without being told. Ask the user to make the change. To permit it, the operator adds writable = [%q] to the paths block inside the permissions block", text, filepath.Base(settings[0])))
	}
	return out
}

// names reports whether a line contains a name as a separate word. Letters, digits, dots and hyphens are
// parts of words.
func names(line, name string) bool {
	for at := 0; ; {
		i := strings.Index(line[at:], name)
		if i < 0 {
			return false
		}
		begin, end := at+i, at+i+len(name)
		if (begin == 0 || !part(line[begin-1])) && (end == len(line) || !part(line[end])) {
			return true
		}
		at = end
	}
}

func part(c byte) bool {
	return c == '.' || c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// shorten joins at most three of the paths for a message, and adds the number of the remaining paths. It returns "" for
// an empty list.
func shorten(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	text := strings.Join(paths[:min(3, len(paths))], ", ")
	if more := len(paths) - 3; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
