// Package audit prepares the arguments of calls for the audit log. It masks secrets and shortens long texts. Most
// callers want [New] and [Masker.Entry].
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

// Mask is the text that replaces each secret.
const Mask = "********"

const (
	// maxText limits the stored length of a text, in bytes. maxList limits the stored number of elements in a list.
	maxText = 1 << 10
	maxList = 100
	// maxArguments limits the stored size of a call's arguments, in bytes.
	maxArguments = 16 << 10
	// maxCommand limits the stored length of a command, in bytes.
	maxCommand = 64 << 10
	// maxLooked limits the length of the text that is searched for secrets, in bytes. The rest of a longer text is not
	// stored.
	maxLooked = 8 << 10
	// leastSecret is the minimum length of a known secret, in bytes. Shorter secrets occur by chance in many harmless
	// texts.
	leastSecret = 6
)

// form describes how secrets of one kind appear in a text.
type form struct {
	// needs lists texts in lower case. A text that contains none of them has no secret of this form, so the slow search
	// is skipped.
	needs []string
	re    func() *regexp.Regexp
	to    string
	// name reports whether the regular expression contains a name in its first group and a value in its
	// second group. The value is masked only if the name suggests a secret.
	name bool
}

// tokens maps the beginnings of well-known tokens to their patterns.
//
//nolint:gosec // these are patterns, not tokens
var tokens = map[string]string{
	"ghp_": `ghp_[A-Za-z0-9]{20,}`, "github_pat_": `github_pat_[A-Za-z0-9_]{20,}`, "glpat-": `glpat-[A-Za-z0-9_-]{16,}`, "xox": `xox[abeoprs]-[A-Za-z0-9-]{8,}`, "xapp-": `xapp-[A-Za-z0-9-]{8,}`,
	"npm_": `npm_[A-Za-z0-9]{30,}`, "pypi-": `pypi-[A-Za-z0-9_-]{16,}`, "hf_": `hf_[A-Za-z0-9]{20,}`, "dop_v1_": `dop_v1_[a-f0-9]{20,}`, "k_live_": `[sr]k_live_[A-Za-z0-9]{10,}`, "k_test_": `[sr]k_test_[A-Za-z0-9]{10,}`,
	"sk-": `sk-[A-Za-z0-9_-]{12,}`, "akia": `AKIA[A-Z0-9]{12,}`, "asia": `ASIA[A-Z0-9]{12,}`, "aiza": `AIza[A-Za-z0-9_-]{30,}`, "ya29.": `ya29\.[A-Za-z0-9_-]{10,}`, "sg.": `SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`,
	"age-secret-key": `AGE-SECRET-KEY-1[A-Z0-9]{20,}`, "eyj": `eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`,
	"whsec_": `whsec_[A-Za-z0-9+/=]{16,}`, "rk_live": `rk_live_[A-Za-z0-9]{10,}`, "shp": `shp(at|ca|pa|ss)_[a-fA-F0-9]{20,}`, "dckr_": `dckr_(pat|oat)_[A-Za-z0-9_-]{16,}`, "hvs.": `hv[sb]\.[A-Za-z0-9_-]{16,}`, "gocspx-": `GOCSPX-[A-Za-z0-9_-]{16,}`, "atatt": `ATATT[A-Za-z0-9_=-]{20,}`,
	"gsk_": `gsk_[A-Za-z0-9]{20,}`, "xai-": `xai-[A-Za-z0-9]{20,}`, "lin_api_": `lin_api_[A-Za-z0-9]{20,}`, "rubygems_": `rubygems_[a-f0-9]{20,}`, "glptt-": `gl(ptt|dt|rt|ft|soat|cbt|agent)-[A-Za-z0-9_-]{16,}`, "gldt-": `gldt-[A-Za-z0-9_-]{16,}`, "glrt-": `glrt-[A-Za-z0-9_-]{16,}`, "pscale_": `pscale_(tkn|pw|oauth)_[A-Za-z0-9_-]{16,}`,
	"accountkey=": `(?i)AccountKey=[A-Za-z0-9+/=]{16,}`, "sharedaccesskey=": `(?i)SharedAccessKey=[A-Za-z0-9+/=]{16,}`, "aws4": `AWS4[A-Za-z0-9+/=]{20,}`, "eaac": `EAAC[A-Za-z0-9]{20,}`, "r8_": `r8_[A-Za-z0-9]{20,}`, "ops_": `ops_eyJ[A-Za-z0-9_=-]{20,}`, "tskey-": `tskey-[A-Za-z0-9-]{16,}`, "nvapi-": `nvapi-[A-Za-z0-9_-]{20,}`, "sbp_": `sbp_[a-f0-9]{20,}`, "ntn_": `ntn_[A-Za-z0-9]{20,}`, "secret_": `secret_[A-Za-z0-9]{30,}`,
	"gho_": `gho_[A-Za-z0-9]{20,}`, "ghs_": `ghs_[A-Za-z0-9]{20,}`, "ghu_": `ghu_[A-Za-z0-9]{20,}`, "ghr_": `ghr_[A-Za-z0-9]{20,}`,
}

// pattern returns a function that compiles a regular expression on its first call. Most runs need none of
// these expressions.
func pattern(s string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(s) })
}

// forms returns the patterns that find secrets: tokens, and values that follow a name. The text in the first
// group of a pattern stays unmasked.
var forms = sync.OnceValue(func() []form {
	out := []form{
		{needs: []string{"private key"}, re: pattern(`-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----(?s:.*?)(-----END [A-Z ]*PRIVATE KEY( BLOCK)?-----|\z)`), to: Mask},
		{needs: []string{"authorization"}, re: pattern(`(?i)((?:proxy-)?authorization)(["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest|negotiate|apikey)\s+)?)([^\s"',;]+)`), name: true},
		{needs: []string{"bearer"}, re: pattern(`(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}`), to: "${1}" + Mask},
		{needs: []string{"cookie"}, re: pattern(`(?i)((?:set-)?cookie["']?\s*:\s*)[^"'\r\n]+`), to: "${1}" + Mask},
		{needs: []string{"://"}, re: pattern(`(://[^\s/:@"'?#]*:)[^\s/"']+@`), to: "${1}" + Mask + "@"},
		{needs: []string{"http://", "https://", "git+http"}, re: pattern(`(https?://)[^\s/:@"'?#]+@`), to: "${1}" + Mask + "@"},
		{needs: []string{"hooks.slack.com", "/api/webhooks/", "webhook.office.com", "hooks.zapier.com"}, re: pattern(`((?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks|webhook\.office\.com/[a-z0-9]+|hooks\.zapier\.com/hooks/catch)/)[A-Za-z0-9_/@.-]+`), to: "${1}" + Mask},
		{needs: []string{"bot"}, re: pattern(`(\bbot|\b)[0-9]{8,10}:[A-Za-z0-9_-]{35}\b`), to: "${1}" + Mask},
		{needs: []string{"curl"}, re: pattern(`(\bcurl\b[^\n|;&]*\s(?:-u|--user)[ =]?["']?[^\s:"']+:)[^\s"']+`), to: "${1}" + Mask},
		// The form "--name value".
		{needs: nameNeeds, re: pattern(`(--[A-Za-z0-9-]+)(\s+)("[^"\n]*"|'[^'\n]*'|[^\s"'&;|-][^\s"'&;|]*)`), name: true},
		// The form "?sig=…&key=…" in a URL.
		{needs: []string{"sig=", "signature=", "credential=", "key=", "token=", "code=", "sas=", "auth="},
			re: pattern(`(?i)([?&](?:sig|signature|key|sas|auth|x-(?:amz|goog|oss)-(?:signature|credential|security-token)|code)=)[^&\s"'#]+`), to: "${1}" + Mask},
		// The forms NAME=value, "name": "value" and name: value.
		{needs: nameNeeds, re: pattern(`([A-Za-z_@][A-Za-z0-9_.-]*)(["']?\s*[=:]\s*|["']\s*,\s*)("[^"\n]*"|'[^'\n]*'|[^\s"'&;|,)}]+)`), name: true},
	}
	for begins, re := range tokens {
		out = append(out, form{needs: []string{begins}, re: pattern(`\b` + re), to: Mask})
	}
	return out
})

// Masker masks secrets. It is safe for concurrent use.
type Masker struct {
	values *strings.Replacer // replaces the known secrets; nil without known secrets
}

// New returns a masker that also masks the given secrets.
func New(secrets []string) *Masker {
	secrets = slices.Clone(secrets)
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // mask longer secrets first, because they can contain shorter ones
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

// Text masks the secrets in a text and shortens it to the maximum stored length.
func (m *Masker) Text(s string) string {
	whole := len(s)
	if len(s) > maxLooked {
		s = cut(s, maxLooked)
	}
	return m.short(m.Whole(s), whole)
}

// short shortens a masked text if the original text is longer than the stored maximum. The argument "whole"
// is the size of the original text in bytes.
func (m *Masker) short(s string, whole int) string {
	if whole > maxText && len(s) > maxText {
		s = cut(s, maxText) + fmt.Sprintf("… (%d bytes)", whole)
	}
	return s
}

// Command masks the secrets in a command. It shortens only extremely long commands, because a user must be able to run
// a stored command again.
func (m *Masker) Command(s string) string {
	s, _ = m.command(s)
	return s
}

// command masks the secrets in a command and also returns the secrets.
func (m *Masker) command(s string) (masked string, secrets []string) {
	end := ""
	if len(s) > maxCommand {
		s, end = cut(s, maxCommand), "…"
	}
	if !structured(s) {
		return m.Whole(s) + end, nil
	}
	var b strings.Builder
	at := 0
	for _, span := range shellSecrets(s) {
		b.WriteString(s[at:span.from])
		b.WriteString(Mask)
		secrets = append(secrets, s[span.from:span.to])
		at = span.to
	}
	b.WriteString(s[at:])
	return m.Whole(b.String()) + end, secrets
}

// structured reports whether a command can contain secrets that only the shell syntax reveals.
func structured(s string) bool {
	return commandHints().occurIn(strings.ToLower(s))
}

// programNames lists the programs whose arguments can contain secrets.
var programNames = sync.OnceValue(func() []string {
	out := words(`chpasswd kinit cryptsetup passwd sudo`)
	for name := range programs {
		out = append(out, name)
	}
	slices.Sort(out)
	// Skip a name that contains a shorter name, because the search for the shorter name finds both.
	return slices.DeleteFunc(out, func(name string) bool {
		return slices.ContainsFunc(out, func(o string) bool { return o != name && strings.Contains(name, o) })
	})
})

// Whole masks the secrets in a text and does not shorten it.
func (m *Masker) Whole(s string) string {
	if m.values != nil {
		s = m.values.Replace(s)
	}
	if lower := strings.ToLower(s); len(s) >= leastSecret && secretHints().occurIn(lower) {
		for _, f := range forms() { // search for substrings first, because the search is a hundred times faster than the expression
			if slices.ContainsFunc(f.needs, func(n string) bool { return strings.Contains(lower, n) }) {
				s = f.replace(s)
			}
		}
	}
	return s
}

func (f *form) replace(s string) string {
	if !f.name {
		return f.re().ReplaceAllString(s, f.to)
	}
	var b strings.Builder
	at := 0
	for at < len(s) {
		g := f.re().FindStringSubmatchIndex(s[at:])
		if g == nil {
			break
		}
		name, value := s[at+g[2]:at+g[3]], s[at+g[6]:at+g[7]]
		if SecretName(name) && !bareFlags[strings.TrimLeft(name, "-")] && !harmlessValue(value) &&
			!slices.Contains(schemes, strings.ToLower(value)) && !strings.HasPrefix(strings.Trim(value, `"'`), Mask) &&
			!expansion(value) {
			b.WriteString(s[at : at+g[6]])
			b.WriteString(Mask)
			at += g[7]
			continue
		}
		// The next search starts at the value, because the value can contain another name.
		b.WriteString(s[at : at+g[4]])
		at += g[4]
	}
	b.WriteString(s[at:])
	return b.String()
}

// schemes lists words that can precede the secret in an Authorization header.
var schemes = words(`bearer basic token digest negotiate apikey`)

// expansion reports whether a value consists only of a variable or a command substitution.
func expansion(value string) bool {
	value = strings.Trim(value, `"'`)
	return value == "" || strings.HasPrefix(value, "$") && strings.Trim(value, "${}(ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// cut returns the first bytes of a text without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Arguments masks the secrets in the arguments of a call, a JSON object. It also limits the length of the result.
func (m *Masker) Arguments(raw []byte) string {
	out, _ := m.Entry(raw)
	return out
}

// JSON masks the secrets in a JSON text of any size, without shortening it. It reports whether the text contained
// secrets.
func (m *Masker) JSON(raw []byte) (masked []byte, changed bool) {
	if m.harmless(raw) {
		return raw, false
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return []byte(`"` + Mask + `"`), true
	}
	w := &visitor{Masker: m, complete: true}
	out, err := encode(w.value("", v, 0))
	if err != nil {
		return []byte(`"` + Mask + `"`), true
	}
	if !w.changed {
		return raw, false
	}
	return out, true
}

// Entry is like Arguments, but also returns a function that masks other texts of the call, such as its error message:
// like Text, and with the secrets in the call's commands.
func (m *Masker) Entry(raw []byte) (arguments string, text func(string) string) {
	switch {
	case len(raw) == 0:
		return "{}", m.Text
	case m.harmless(raw):
		return string(raw), m.Text
	}
	v := &visitor{Masker: m}
	arguments = v.masked(raw)
	if len(v.secrets) == 0 {
		return arguments, m.Text
	}
	return arguments, func(s string) string { return m.Text(v.redact(s)) }
}

// visitor masks the arguments of one call.
type visitor struct {
	*Masker
	secrets []string // secrets in the call's commands
	// complete prevents the shortening of long texts and lists. The field "changed" reports whether a
	// secret was masked.
	complete, changed bool
}

// text masks the secrets in a text.
func (m *visitor) text(s string) string {
	if !m.complete {
		return m.Text(s)
	}
	masked := m.Whole(s)
	m.changed = m.changed || masked != s
	return masked
}

// leastQuoted is the minimum length, in bytes, of a command's secret that is masked in other texts of the call.
const leastQuoted = 4

// redact masks the secrets of the call's commands in another text, such as an error message.
func (m *visitor) redact(s string) string {
	for _, secret := range m.secrets {
		if secret = strings.Trim(secret, `"'`); len(secret) >= leastQuoted {
			s = strings.ReplaceAll(s, secret, Mask)
		}
	}
	return s
}

func (m *visitor) masked(raw []byte) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		v = map[string]any{"malformed": string(raw)}
	}
	out, err := encode(m.value("", v, 0))
	if err != nil || len(out) > maxArguments {
		out, _ = encode(map[string]any{"omitted": fmt.Sprintf("%d bytes", len(raw))})
	}
	return string(out)
}

// harmless reports whether arguments are short and clearly contain no secrets. It is ten times faster than
// a check of each value, and most arguments are harmless.
func (m *Masker) harmless(raw []byte) bool {
	if len(raw) > maxText || bytes.ContainsAny(raw, "\\\n") || bytes.Count(raw, []byte{','}) >= maxList ||
		bytes.Count(raw, []byte{'{'})+bytes.Count(raw, []byte{'['}) > 32 {
		return false
	}
	s := string(raw)
	if m.values != nil && m.values.Replace(s) != s {
		return false
	}
	lower := strings.ToLower(s)
	// Search for program names only in commands, because they are also parts of many ordinary words.
	if scriptKeys().occurIn(lower) && commandHints().occurIn(lower) {
		return false
	}
	return !secretHints().occurIn(lower) && utf8.Valid(raw) && json.Valid(raw)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// scripts lists the names of parameters that contain commands.
var scripts = words(`command cmd commands script shell run exec malformed stdin input code args argv arguments query`)

func (m *visitor) value(name string, v any, depth int) any {
	switch v := v.(type) {
	case string:
		if slices.Contains(scripts, strings.ToLower(name)) && structured(v) {
			masked, secrets := m.command(v)
			m.secrets = append(m.secrets, secrets...)
			if m.complete {
				m.changed = m.changed || masked != v
				return masked
			}
			return m.short(masked, len(v))
		}
		return m.text(v)
	case map[string]any:
		if depth > 32 {
			m.changed = true
			return "…"
		}
		for name, inner := range v {
			switch inner.(type) {
			case nil, bool, json.Number: // not a secret, for example a number in the parameter "max_tokens"
			default:
				v[name] = m.value(name, inner, depth+1)
				if SecretName(name) {
					v[name], m.changed = Mask, true
				}
			}
		}
		return v
	case []any:
		if depth > 32 {
			m.changed = true
			return "…"
		}
		rest := len(v) - maxList
		if m.complete {
			rest = 0
		}
		if rest > 0 {
			v = v[:maxList]
		}
		for i := range v {
			v[i] = m.value("", v[i], depth+1)
		}
		if rest > 0 {
			v = append(v, fmt.Sprintf("… (%d more)", rest))
		}
		return v
	}
	return v
}
