// Package audit makes what calls were given fit to be kept: secrets are masked, and long
// texts are cut.
package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Mask stands where a secret stood.
const Mask = "********"

const (
	// maxText and maxList bound what is kept of a text, in bytes, and of a list.
	maxText = 1 << 10
	maxList = 100
	// maxArguments bounds all of a call's arguments, in bytes.
	maxArguments = 16 << 10
	// maxLooked bounds the text that is searched for secrets, in bytes; more is never kept.
	maxLooked = 8 << 10
	// leastSecret is the length of a secret that is looked for in texts, in bytes: a
	// shorter one would be found in half of all texts.
	leastSecret = 6
)

// secretName is the name of a parameter or a variable that holds a secret.
var secretName = regexp.MustCompile(`(?i)(^|[_.-]|[a-z])(pass(wd|word|phrase)?|pwd|secrets?|(api|access|auth|refresh|bearer|id|csrf|session|private|client|oauth|bot|webhook)?[_.-]?tokens?|(api|access|private|secret|encryption|signing|account|master|license)[_.-]?keys?|credentials?|auth(orization)?|cookies?)$`)

// SecretName reports whether a value of that name is a secret by its name.
func SecretName(name string) bool {
	if strings.EqualFold(name, "pwd") || strings.EqualFold(name, "oldpwd") || strings.EqualFold(name, "author") {
		return false
	}
	return secretName.MatchString(name)
}

// shapes are texts that are secrets wherever they stand; a group, if there is one, is
// what stays.
var shapes = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----(?s:.*?)(-----END [A-Z ]*PRIVATE KEY( BLOCK)?-----|\z)`),
	regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|dop_v1_[a-f0-9]{20,}|[sr]k_(live|test)_[A-Za-z0-9]{10,}|sk-[A-Za-z0-9_-]{16,}|AKIA[A-Z0-9]{16}|ASIA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{10,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|AGE-SECRET-KEY-1[A-Z0-9]{20,}|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`),
}

// named are texts in which a name says that a secret follows: the first group stays.
var named = []*regexp.Regexp{
	regexp.MustCompile(`(?i)((?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest|negotiate|apikey)\s+)?)[^\s"',;]+`),
	regexp.MustCompile(`(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`(?i)((?:set-)?cookie["']?\s*:\s*)[^"'\r\n]+`),
	regexp.MustCompile(`(://[^\s/:@"']*:)[^\s/@"']+@`),
	// NAME=value, "name": "value", name: value, --name value
	regexp.MustCompile(`(?i)((?:^|[^a-z0-9])(?:[a-z0-9_.-]*[_.-])?(?:password|passwd|passphrase|secret|token|api[_.-]?key|access[_.-]?key|secret[_.-]?key|private[_.-]?key|credentials?)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s"'&;|,)}]+)`),
	regexp.MustCompile(`(?i)(--?(?:[a-z0-9]+-)*(?:password|passwd|passphrase|secret|token|api-?key|access-?key|secret-?key)\s+)("[^"]*"|'[^']*'|[^\s"'&;|]+)`),
	regexp.MustCompile(`(\bcurl\b[^\n|;&]*\s(?:-u|--user)[ =]?["']?[^\s:"']+:)[^\s"']+`),
}

// Masker masks secrets. It is safe for concurrent use.
type Masker struct {
	values *strings.Replacer // nil: no value is known
}

// New makes a masker that knows the values of secrets.
func New(secrets []string) *Masker {
	secrets = slices.Clone(secrets)
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // the longer one goes first
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

// Text gives a text without secrets, cut to a length that is kept.
func (m *Masker) Text(s string) string {
	whole := len(s)
	if len(s) > maxLooked {
		s = cut(s, maxLooked)
	}
	if m.values != nil {
		s = m.values.Replace(s)
	}
	for _, re := range shapes {
		s = re.ReplaceAllLiteralString(s, Mask)
	}
	for i, re := range named {
		to := "${1}" + Mask
		if i == 3 {
			to += "@"
		}
		s = re.ReplaceAllString(s, to)
	}
	if whole > maxText && len(s) > maxText {
		s = cut(s, maxText) + fmt.Sprintf("… (%d bytes)", whole)
	}
	return s
}

// cut gives the beginning of a text, whole runes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Arguments gives a call's arguments, a JSON object, without secrets and of bounded length.
func (m *Masker) Arguments(raw []byte) string {
	if len(raw) == 0 {
		return "{}"
	}
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
			case nil, bool, json.Number: // as max_tokens
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
