// Package audit prepares the arguments of calls for the audit log. It masks secrets and shortens long texts.
package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Mask replaces a secret.
const Mask = "********"

const (
	// maxText and maxList limit the stored length of a text, in bytes, and of a list.
	maxText = 1 << 10
	maxList = 100
	// maxArguments limits the stored size of a call's arguments, in bytes.
	maxArguments = 16 << 10
	// maxCommand limits the stored length of a command, in bytes.
	maxCommand = 64 << 10
	// maxLooked limits the text that is searched for secrets, in bytes. Only text within this limit is stored.
	maxLooked = 8 << 10
	// leastSecret is the minimum length in bytes of a known secret. Shorter secrets would match parts of many harmless
	// texts.
	leastSecret = 6
)

// secretName matches the name of a parameter or variable that contains a secret.
var secretName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(^|[_.-]|[a-z])(pass(wd|word|phrase)?|pwd|secrets?|(api|access|auth|refresh|bearer|id|csrf|session|private|client|oauth|bot|webhook)?[_.-]?tokens?|(api|access|private|secret|encryption|signing|account|master|license)[_.-]?keys?|credentials?|auth(orization)?|cookies?)$`)
})

// nameNeeds lists substrings. Every name that secretName matches contains at least one of them.
var nameNeeds = []string{"pass", "pwd", "secret", "token", "key", "credential", "auth", "cookie"}

// SecretName reports whether the name suggests that the value is a secret.
func SecretName(name string) bool {
	if strings.EqualFold(name, "pwd") || strings.EqualFold(name, "oldpwd") || strings.EqualFold(name, "author") {
		return false
	}
	lower := strings.ToLower(name)
	return slices.ContainsFunc(nameNeeds, func(n string) bool { return strings.Contains(lower, n) }) && secretName().MatchString(name)
}

// form describes the syntax of a secret in a text.
type form struct {
	// needs lists lower-case substrings. Every text with such a secret contains at least one of them.
	needs []string
	re    *regexp.Regexp
	to    string
}

// tokens maps the beginnings of well-known tokens to their patterns.
var tokens = map[string]string{
	"ghp_": `ghp_[A-Za-z0-9]{20,}`, "github_pat_": `github_pat_[A-Za-z0-9_]{20,}`, "glpat-": `glpat-[A-Za-z0-9_-]{16,}`, "xox": `xox[abeoprs]-[A-Za-z0-9-]{8,}`, "xapp-": `xapp-[A-Za-z0-9-]{8,}`,
	"npm_": `npm_[A-Za-z0-9]{30,}`, "pypi-": `pypi-[A-Za-z0-9_-]{16,}`, "hf_": `hf_[A-Za-z0-9]{20,}`, "dop_v1_": `dop_v1_[a-f0-9]{20,}`, "k_live_": `[sr]k_live_[A-Za-z0-9]{10,}`, "k_test_": `[sr]k_test_[A-Za-z0-9]{10,}`,
	"sk-": `sk-[A-Za-z0-9_-]{16,}`, "akia": `AKIA[A-Z0-9]{16}`, "asia": `ASIA[A-Z0-9]{16}`, "aiza": `AIza[A-Za-z0-9_-]{30,}`, "ya29.": `ya29\.[A-Za-z0-9_-]{10,}`, "sg.": `SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`,
	"age-secret-key": `AGE-SECRET-KEY-1[A-Z0-9]{20,}`, "eyj": `eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`,
	"gho_": `gho_[A-Za-z0-9]{20,}`, "ghs_": `ghs_[A-Za-z0-9]{20,}`, "ghu_": `ghu_[A-Za-z0-9]{20,}`, "ghr_": `ghr_[A-Za-z0-9]{20,}`,
}

// forms returns the forms of tokens and of secrets with a name in front. The first group of an expression is kept.
var forms = sync.OnceValue(func() []form { // compiled on first use, because most runs do not need the forms
	const names = `password|passwd|passphrase|secret|token|api[_.-]?key|access[_.-]?key|secret[_.-]?key|private[_.-]?key|credentials?`
	named := []string{"passw", "passphrase", "secret", "token", "key", "credential"}
	out := []form{
		{[]string{"private key"}, regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----(?s:.*?)(-----END [A-Z ]*PRIVATE KEY( BLOCK)?-----|\z)`), Mask},
		{[]string{"authorization"}, regexp.MustCompile(`(?i)((?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest|negotiate|apikey)\s+)?)[^\s"',;]+`), "${1}" + Mask},
		{[]string{"bearer"}, regexp.MustCompile(`(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}`), "${1}" + Mask},
		{[]string{"cookie"}, regexp.MustCompile(`(?i)((?:set-)?cookie["']?\s*:\s*)[^"'\r\n]+`), "${1}" + Mask},
		{[]string{"://"}, regexp.MustCompile(`(://[^\s/:@"']*:)[^\s/@"']+@`), "${1}" + Mask + "@"},
		// NAME=value, "name": "value", name: value, --name value
		{named, regexp.MustCompile(`(?i)((?:^|[^a-z0-9])(?:[a-z0-9_.-]*[_.-])?(?:` + names + `)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s"'&;|,)}]+)`), "${1}" + Mask},
		{named, regexp.MustCompile(`(?i)(--?(?:[a-z0-9]+-)*(?:` + names + `)\s+)("[^"]*"|'[^']*'|[^\s"'&;|]+)`), "${1}" + Mask},
		{[]string{"curl"}, regexp.MustCompile(`(\bcurl\b[^\n|;&]*\s(?:-u|--user)[ =]?["']?[^\s:"']+:)[^\s"']+`), "${1}" + Mask},
	}
	for begins, re := range tokens {
		out = append(out, form{[]string{begins}, regexp.MustCompile(`\b` + re), Mask})
	}
	return out
})

// Masker masks secrets. It is safe for concurrent use.
type Masker struct {
	values *strings.Replacer // nil if no secrets are known
}

// New returns a masker that also masks the given secrets.
func New(secrets []string) *Masker {
	secrets = slices.Clone(secrets)
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // longer secrets first
	var pairs []string
	for _, s := range slices.Compact(secrets) {
		if len(s) >= leastSecret {
			pairs = append(pairs, s, Mask)
		}
	}
	m := new(Masker)
	if len(pairs) > 0 {
		m.values = strings.NewReplacer(pairs...)
	}
	return m
}

// Text returns a text without secrets, shortened to the stored length.
func (m *Masker) Text(s string) string {
	whole := len(s)
	if len(s) > maxLooked {
		s = cut(s, maxLooked)
	}
	s = m.Whole(s)
	if whole > maxText && len(s) > maxText {
		s = cut(s, maxText) + fmt.Sprintf("… (%d bytes)", whole)
	}
	return s
}

// Command returns a command without secrets. It shortens only extremely long commands, so that users can run the others
// again.
func (m *Masker) Command(s string) string {
	if len(s) > maxCommand {
		return m.Whole(cut(s, maxCommand)) + "…"
	}
	return m.Whole(s)
}

// Whole returns a text without secrets and with its full length.
func (m *Masker) Whole(s string) string {
	if m.values != nil {
		s = m.values.Replace(s)
	}
	if lower := strings.ToLower(s); len(s) >= leastSecret {
		for _, f := range forms() { // searching for substrings is a hundred times faster than the expression
			if slices.ContainsFunc(f.needs, func(n string) bool { return strings.Contains(lower, n) }) {
				s = f.re.ReplaceAllString(s, f.to)
			}
		}
	}
	return s
}

// cut returns the beginning of a text without splitting a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Arguments returns the arguments of a call, a JSON object, without secrets and with limited length.
func (m *Masker) Arguments(raw []byte) string {
	switch {
	case len(raw) == 0:
		return "{}"
	case m.harmless(raw):
		return string(raw)
	}
	return m.masked(raw)
}

func (m *Masker) masked(raw []byte) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		v = map[string]any{"malformed": string(raw)}
	}
	out, err := encode(m.value(v, 0))
	if err != nil || len(out) > maxArguments {
		out, _ = encode(map[string]any{"omitted": fmt.Sprintf("%d bytes", len(raw))})
	}
	return string(out)
}

// harmless reports whether arguments are short and obviously contain no secrets. Most arguments are harmless, and this
// check takes a tenth of the time of checking each value.
func (m *Masker) harmless(raw []byte) bool {
	if len(raw) > maxText || bytes.ContainsAny(raw, "\\\n") || bytes.Count(raw, []byte{','}) >= maxList || bytes.Count(raw, []byte{'{'})+bytes.Count(raw, []byte{'['}) > 32 {
		return false
	}
	s := string(raw)
	if m.values != nil && m.values.Replace(s) != s {
		return false
	}
	lower := strings.ToLower(s)
	has := func(n string) bool { return strings.Contains(lower, n) }
	return !slices.ContainsFunc(nameNeeds, has) && !slices.ContainsFunc(forms(), func(f form) bool { return slices.ContainsFunc(f.needs, has) }) && utf8.Valid(raw) && json.Valid(raw)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

func (m *Masker) value(v any, depth int) any {
	switch v := v.(type) {
	case string:
		return m.Text(v)
	case map[string]any:
		if depth > 32 {
			return "…"
		}
		for name, inner := range v {
			switch inner.(type) {
			case nil, bool, json.Number: // for example a number in max_tokens
			default:
				v[name] = m.value(inner, depth+1)
				if SecretName(name) {
					v[name] = Mask
				}
			}
		}
		return v
	case []any:
		if depth > 32 {
			return "…"
		}
		rest := len(v) - maxList
		if rest > 0 {
			v = v[:maxList]
		}
		for i := range v {
			v[i] = m.value(v[i], depth+1)
		}
		if rest > 0 {
			v = append(v, fmt.Sprintf("… (%d more)", rest))
		}
		return v
	}
	return v
}
